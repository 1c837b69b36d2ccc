"""Training from Python."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from base.errors import UsageError
from eval.zero_shot.during_training import TrainingScorer, find_pairs
from ffn_ablations.errors import brief_in_notebooks, named, told
from ffn_ablations.runs import Run, Runs
from ffn_ablations.values import typed_values
from pretrain.config import RunConfig
from pretrain.run.run_dir import run_dir
from pretrain.training.seeds import find_configs, train_in_turn
from pretrain.training.train import train as train_run


@told()
def train(
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    seeds: Iterable[int] | str | None = None,
    trust_remote_code: bool = False,
    **settings: Any,
) -> Any:
    """Pretrain a model, or go on with it, or find it finished: what the command ``train`` does.

    Args:
        config: The name of a shipped configuration (``"tiny"``), the path of a YAML file, or its content as a
            mapping; None takes the defaults.
        seeds: Train each of these, one after the other: ``[1, 2, 3]`` or ``"1-3"``.
        trust_remote_code: Run the file of an FFN variant that ``config`` names, which is code. One that
            ``ffn="path/to/mine.py:SPEC"`` names is run.
        **settings: What is a flag of the command, with underscores: ``ffn="swish"``, ``seed=1``,
            ``runs_dir="out"``; in sections ``optim={"max_steps": 100}``, or ``**{"optim.max_steps": 100}``.

    Returns:
        A ``Run``; with ``seeds`` all of them as ``Runs``.

    Raises:
        UsageError: For a mistake, for a fault of the world such as a full disk, or after a signal to stop.
            After that, and after Ctrl-C, the same call goes on from the last checkpoint.
    """
    if config is not None and not isinstance(config, str | os.PathLike | Mapping):
        raise UsageError(f"config is {named(config)}; give a name, a path or a mapping")
    values = dict(config) if isinstance(config, Mapping) else None
    path = None if config is None or values is not None else Path(config)  # type: ignore[bad-argument-type]
    given = None if seeds is None else [seeds] if isinstance(seeds, str | int) else list(map(str, seeds))
    typed = typed_values(RunConfig, settings)
    configs = find_configs(path, values, typed, given, trust_remote_code)  # type: ignore[arg-type]
    with brief_in_notebooks(), _randomness_left_alone():
        _train(configs)
    runs = Runs([Run(run_dir(each)) for each in configs])
    return runs[0] if seeds is None else runs


def _train(configs: list[RunConfig]) -> None:
    build_scorer = None
    if configs[0].train.eval_every:
        find_pairs(configs[0])
        build_scorer = TrainingScorer
    if len(configs) == 1:
        train_run(configs[0], build_scorer)
    else:
        train_in_turn(configs, lambda each: train_run(each, build_scorer))


@contextmanager
def _randomness_left_alone() -> Iterator[None]:
    """Put back the random states that a training sets to its seed: they belong to the caller."""
    python, arrays = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)
