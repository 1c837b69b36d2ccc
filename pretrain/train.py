"""Pretrain a model.

ffn-ablations train CONFIG.yaml --ffn kan --seed 3

The YAML file may be left out; any of its fields is a flag, and flags win. --dry-run prints the resolved
configuration, parameter counts, token budget and run folder, and writes nothing. The same command again
continues an unfinished run, and says so of a finished one.

--seeds 1,2,3 in place of --seed trains these seeds in one process, one after the other, each into the same
folder and to the same weights as alone. One that fails does not stop the next; the exit code is then 2.

SIGTERM, SIGUSR1 and SIGUSR2 end a run after the step it is at, with a checkpoint and exit code 75.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from base.command_line import Positional, read_flags
from base.errors import run_cli
from pretrain.config import RunConfig


class TrainArgs(RunConfig):
    """Pretrain a model."""

    config_file: Positional[Path | None] = None
    """YAML file, or the name of a shipped one, with values of the flags below, which win over it."""
    dry_run: bool = False
    """Print the resolved configuration, parameter counts, token budget and run folder, and write nothing."""
    seeds: tuple[str, ...] = ()
    """Train each of these in place of --seed, one after the other: 1,2,3 or 1-3."""


def main(args: Sequence[str] | None = None) -> int | None:
    """The command."""
    typed = read_flags(TrainArgs, args, prog="ffn-ablations train", description=__doc__)

    from pretrain.training.dry_run import check_usable, describe_runs
    from pretrain.training.seeds import configs_of_seeds, train_in_turn

    configs, num_processes = configs_of_seeds(typed), int(os.environ.get("WORLD_SIZE", "1"))
    build_scorer = None
    if configs[0].train.eval_every:  # the seeds of one command share all other settings
        from eval.zero_shot.during_training import TrainingScorer, find_pairs

        find_pairs(configs[0])
        build_scorer = TrainingScorer
    if typed.values.get(("dry_run",)):
        check_usable(configs[0], num_processes)
        if os.environ.get("RANK", "0") == "0":
            print(describe_runs(configs, num_processes))
        return None
    from pretrain.training.training_run import train  # which a dry run does without

    if len(configs) == 1:
        train(configs[0], build_scorer)
    else:
        train_in_turn(configs, lambda config: train(config, build_scorer))
    return None


if __name__ == "__main__":
    run_cli(main)
