"""The command that pretrains a model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from base.command_line import Positional, read_flags
from base.errors import UsageError, run_cli, unknown_name
from base.lazy_modules import without_collecting
from pretrain.config import RunConfig
from pretrain.training.seeds import configs_of_seeds, train_in_turn


class TrainArgs(RunConfig):
    """Pretrain a model.

        ffn-ablations train tiny --ffn kan --seed 3 --lr 1e-3
        ffn-ablations train mini-gpt-neo --data.source files --data.train-files stories.jsonl

    Any field of the YAML file is a flag, and flags win; the file may be left out. The same command again
    continues an unfinished run, and says so of a finished one.
    SIGTERM, SIGUSR1 and SIGUSR2 end it after the step it is at, with a checkpoint and exit code 75.
    """

    common: ClassVar = (
        *("dry_run", "seed", "seeds", "device", "family", "model.ffn", "model.hidden_size"),
        *("optim.learning_rate", "optim.max_steps", "optim.num_train_epochs", "train.batch_size"),
        *("data.source", "data.train_files", "output.runs_dir", "config_file"),
    )

    config_file: Positional[Path | None] = None
    """YAML file, or the name of a shipped one, with values of the flags below, which win over it."""
    dry_run: bool = False
    """Print the configuration, parameter counts, token budget and run folder, and write nothing."""
    device: Literal["cpu", "cuda"] | None = None
    """Compute on the CPU, or on a GPU, which must be there; without, on a GPU where there is one."""
    seeds: tuple[str, ...] = ()
    """Train each of these in place of --seed, one after the other, to the same weights as alone: 1,2,3 or
    1-3. One that fails does not stop the next; the exit code is then 2."""


def main(args: Sequence[str] | None = None) -> int | None:
    """The command."""
    typed = read_flags(TrainArgs, args, prog="ffn-ablations train")
    use_device(typed.values.get(("device",)))
    configs = configs_of_seeds(typed)
    num_processes = int(os.environ.get("WORLD_SIZE", "1"))
    build_scorer = None
    if configs[0].train.eval_every:  # the seeds of one command share all other settings
        from eval.zero_shot.during_training import TrainingScorer, find_pairs

        find_pairs(configs[0])
        build_scorer = TrainingScorer
    from pretrain.training.dry_run import check_usable, describe_runs

    check_usable(configs[0], num_processes)  # before torch is loaded
    if typed.values.get(("dry_run",)):
        if os.environ.get("RANK", "0") == "0":
            print(describe_runs(configs, num_processes))
        return None
    with without_collecting():
        from pretrain.training.training_run import train  # which a dry run does without

    if len(configs) == 1:
        train(configs[0], build_scorer)
    else:
        train_in_turn(configs, lambda config: train(config, build_scorer))
    return None


def use_device(name: str | None) -> None:
    """Have this process and those that it starts compute on the CPU, or make sure that there is a GPU.

    Args:
        name: ``cpu`` or ``cuda``; with None nothing is decided.

    Raises:
        UsageError: For another name, or a GPU that is not there.
    """
    if name not in (None, "cpu", "cuda"):
        raise unknown_name("value of --device:", name, ("cpu", "cuda"))
    if name == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if name == "cuda":
        from ffn_variants.devices import visible_gpus

        if not visible_gpus():
            raise UsageError("--device cuda: torch sees no GPU here; leave it out to compute on the CPU")


if __name__ == "__main__":
    run_cli(main)
