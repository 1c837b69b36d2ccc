"""Several seeds of one cell in one process: ``--seeds 1,2,3``.

They are trained one after the other, and so each is its single run to the bit. Side by side, with a dimension
for the seeds in every parameter, was measured to save nothing that processes do not save as well
(docs/performance.md).
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from base.config_input import flag_value
from base.errors import UsageError
from pretrain.config import RunConfig, load_config
from pretrain.data.prepare import prepare_data
from pretrain.run.folders import RunFolder
from pretrain.run.run_dir import run_dir
from pretrain.training.stopping import stopped_between_runs


def load_configs(
    path: Path | None, args: Sequence[str], prog: str, description: str | None
) -> list[RunConfig]:
    """Read the configuration of every run that a command line asks for.

    Args:
        path: YAML file, or None for the defaults.
        args: Flags of ``load_config``, and perhaps ``--seeds``.
        prog: Name of the command in ``--help``.
        description: First lines of ``--help``.

    Returns:
        One configuration, or one for each of ``--seeds`` in their order.

    Raises:
        UsageError: As ``load_config``, or if ``--seeds`` is misused.
    """
    seeds, rest = split_seeds(args)
    if seeds is None:
        return [load_config(path, rest, None, prog, description)]
    if single := flag_value(rest, "--seed"):
        raise UsageError(f"--seed {single} and --seeds {_join(seeds)} were both given; leave one out")
    configs = [load_config(path, [*rest, "--seed", str(seed)], None, prog, description) for seed in seeds]
    name = configs[0].output.run_name
    if name is not None and len(seeds) > 1:
        raise UsageError(
            f"--run-name {name} names the folder of one run, and --seeds {_join(seeds)} are {len(seeds)}: "
            "leave it out, and each has a folder of its own"
        )
    return configs


def split_seeds(args: Sequence[str]) -> tuple[list[int] | None, list[str]]:
    """Take ``--seeds 1,2,3``, ``--seeds=1,2,3`` or ``--seeds 1 2 3`` out of a command line.

    Returns:
        The seeds, None where the flag is absent, and the other arguments.

    Raises:
        UsageError: If no whole numbers follow, or one twice.
    """
    place = next((i for i, arg in enumerate(args) if arg.partition("=")[0] == "--seeds"), None)
    if place is None:
        return None, list(args)
    end = place + 1
    while end < len(args) and not args[end].startswith("-"):
        end += 1
    words = ",".join([args[place].partition("=")[2], *args[place + 1 : end]]).split(",")
    words = [word.strip() for word in words if word.strip()]
    wrong = [word for word in words if not word.isdecimal()]
    if wrong or not words:
        raise UsageError(f"--seeds {' '.join(wrong)}".rstrip() + ": give whole numbers, as in --seeds 1,2,3")
    seeds = [int(word) for word in words]
    if twice := [seed for seed in seeds if seeds.count(seed) > 1]:
        raise UsageError(f"--seeds names {twice[0]} twice; give every seed once")
    return seeds, [*args[:place], *args[end:]]


def train_in_turn(configs: Sequence[RunConfig], train: Callable[[RunConfig], Any]) -> None:
    """Train one run after the other; a failing one is told and never stops the next.

    Several processes end with the first that fails: whether the others failed too is not known to each.

    Args:
        configs: Runs that differ in their seeds.
        train: Trains one; where it is finished or begun, says or continues so.

    Raises:
        UsageError: At the end, if any run failed; or at once, if the corpus of all is unusable.
        Stopped: After SIGTERM, SIGUSR1 or SIGUSR2, which end all runs.
    """
    failed = []
    with stopped_between_runs():
        if unfinished := [config for config in configs if not RunFolder(run_dir(config)).is_complete]:
            prepare_data(unfinished[0])  # once for all, so that a mistake in the corpus is told once
        for config in configs:
            try:
                train(config)
            except Exception as error:
                if int(os.environ.get("WORLD_SIZE", "1")) > 1:
                    raise
                failed.append(config.seed)
                if isinstance(error, UsageError):
                    print(f"error: {error}", file=sys.stderr, flush=True)
                else:
                    traceback.print_exc()
    if failed:
        raise UsageError(
            f"{len(failed)} of {len(configs)} seeds failed, for the reasons above: {_join(failed)}; the same "
            "command leaves out the finished ones"
        )


def _join(seeds: Sequence[int]) -> str:
    return ",".join(map(str, seeds))
