"""Several seeds of one configuration in one process: ``--seeds 1,2,3``.

They are trained one after the other, and so each is its single run to the bit. Side by side, with a dimension
for the seeds in every parameter, was measured to save nothing that processes do not save as well
(benchmarks/RESULTS.md).
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from base.config_input import note_on_one, parse_seeds
from base.errors import DeviceError, UsageError, as_usage_error
from base.sections import Typed
from pretrain.config import ResolvedConfig, RunConfig
from pretrain.config_sources import read_sources
from pretrain.resolution import resolve_sources


def configs_of_seeds(typed: Typed) -> list[ResolvedConfig]:
    """Read the configuration of every run that a command line asks for.

    Args:
        typed: What it gives to ``pretrain.train.TrainArgs``.

    Returns:
        One configuration, or one for each of ``--seeds`` in their order.

    Raises:
        UsageError: As ``load_config``, if ``--seeds`` is misused, or if nothing was typed at all.
    """
    if not typed.values:
        raise UsageError(
            "usage: ffn-ablations train [CONFIG] [--FLAG VALUE ...]; CONFIG is a YAML file or a shipped one, "
            "such as tiny (ffn-ablations list studies lists them); for the defaults alone say --seed 1"
        )
    path, several = typed.values.get(("config_file",)), typed.values.get(("seeds",))
    if (note := note_on_one(" ".join(several or ()))) and os.environ.get("RANK", "0") == "0":
        print(note)
    return find_configs(None if path is None else Path(path), None, typed.of(RunConfig), several)


def find_configs(
    path: Path | None,
    values: dict[str, Any] | None,
    typed: Typed,
    several: Sequence[str] | None,
    trust_remote_code: bool = False,
) -> list[ResolvedConfig]:
    """Put together the configuration of every run that is asked for.

    Args:
        path: YAML file, or None for the defaults.
        values: Nested values on top of it.
        typed: What goes before both.
        several: Seeds in place of the one of these, "1,2,3" or "1-3"; None for that one alone.
        trust_remote_code: Whether to run a variant's file that the YAML file or the values name.

    Raises:
        UsageError: As ``resolve_sources``, or for seeds that cannot be used.
    """
    single, ffn = typed.values.get(("seed",)), typed.values.get(("model", "ffn"))
    if isinstance(ffn, str) and "," in ffn and ".py" not in ffn:
        raise UsageError(f"--ffn {ffn}: {RunConfig.hints['--ffn']}")
    if several is None:
        if isinstance(single, str) and re.search(r"\d[-,]\d", single):
            raise UsageError(f"--seed {single} is several seeds: --seeds {single}")
        return [resolve_sources(read_sources(path, values, typed, trust_remote_code))]
    seeds = parse_seeds(several, "--seeds", "--seeds 1,2,3")
    all_seeds = ",".join(map(str, seeds))
    if single is not None:
        raise UsageError(f"--seed {single} and --seeds {all_seeds} were both given; leave one out")
    typed_by_seed = [typed.given("--seed", ("seed",), seed) for seed in seeds]
    configs = [resolve_sources(read_sources(path, values, each, trust_remote_code)) for each in typed_by_seed]
    name = configs[0].output.run_name
    if name is not None and len(seeds) > 1:
        raise UsageError(
            f"--run-name {name} names the folder of one run, and --seeds {all_seeds} are {len(seeds)}: "
            "leave it out, and each has a folder of its own"
        )
    return configs


def train_in_turn(configs: Sequence[ResolvedConfig], train: Callable[[ResolvedConfig], Any]) -> None:
    """Train one run after the other; a failing one is reported and never stops the next.

    Several processes end with the first that fails: whether the others failed too is not known to each.

    Args:
        configs: Runs that differ in their seeds, or in their FFN too.
        train: Trains one, continues it, or returns where it is finished.

    Raises:
        UsageError: At the end, if any run failed.
        Stopped: After SIGTERM, SIGUSR1 or SIGUSR2, which end all runs.
    """
    failures = []
    are_seeds = len({config.model.ffn for config in configs}) == 1
    for config in configs:
        try:
            train(config)
        except Exception as error:
            mistake = as_usage_error(error)
            if int(os.environ.get("WORLD_SIZE", "1")) > 1 or isinstance(mistake, DeviceError):
                raise
            failures.append(f"{'' if are_seeds else f'{config.model.ffn} seed '}{config.seed}")
            if isinstance(mistake, UsageError):
                print(f"error: {mistake}", file=sys.stderr, flush=True)
            else:
                traceback.print_exc()
    if failures:
        raise UsageError(
            f"{len(failures)} of {len(configs)} {'seeds' if are_seeds else 'runs'} failed, for the reasons "
            f"above: {', '.join(failures)}; the same command leaves out the finished ones"
        )
