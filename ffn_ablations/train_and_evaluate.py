"""Training and scoring from Python; needs the full installation."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from base.errors import UsageError
from eval.config import EvalConfig
from eval.evaluate import evaluate_runs, failure_lines
from eval.work_units import check_sources
from eval.zero_shot.during_training import TrainingScorer, find_pairs
from ffn_ablations.flags_as_keywords import (
    brief_in_notebooks,
    one_line_errors,
    read_keywords,
    typed_values,
)
from ffn_ablations.runs import Run, Runs, as_runs
from pretrain.config import ResolvedConfig, RunConfig
from pretrain.run.run_folder import run_dir
from pretrain.training.seeds import find_configs, train_in_turn
from pretrain.training.training_run import train as train_run
from report.inputs.run_facts import held_out_rows


@one_line_errors()
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
    values = dict(config) if isinstance(config, Mapping) else None
    path = None if config is None or values is not None else Path(config)  # type: ignore[bad-argument-type]
    words = None if seeds is None else [seeds] if isinstance(seeds, str | int) else list(map(str, seeds))
    typed = typed_values(RunConfig, settings)
    configs = find_configs(path, values, typed, words, trust_remote_code)
    with brief_in_notebooks(), _randomness_left_alone():
        _train(configs)
    runs = Runs([Run(run_dir(each)) for each in configs])
    return runs[0] if seeds is None else runs


def _train(configs: list[ResolvedConfig]) -> None:
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


@one_line_errors()
def evaluate(
    runs: object,
    suites: Sequence[str] = (),
    *,
    workers: int = 1,
    trust_remote_code: bool = False,
    **settings: Any,
) -> pd.DataFrame:
    """Score runs, leaving out what is scored already: what the command ``eval`` does.

    Args:
        runs: What ``train`` returned, a list of such, paths of runs' folders, or a ``Study``.
        suites: Benchmarks, such as ``["embedded-pairs", "blimp"]``; without any there is the held-out loss.
        workers: Runs that are scored at the same time, each by a process started anew: a script then needs
            ``if __name__ == "__main__":``.
        trust_remote_code: Run FFN variants that the runs bring, which are code. One that this process trained
            or loaded needs none.
        **settings: What is a flag of the command, with underscores: ``blimp_dir="data/blimp"``,
            ``classify=["sst2"]``, ``finetune={"head": ["linear"]}``.

    Returns:
        One row a score, as ``compare`` takes it: run_id, family, variant, seed, benchmark, task, group,
        metric, score, n_items, head, primary; the held-out loss of every finished run among them.

    Raises:
        UsageError: For a mistake, or where something could not be scored; what could is kept, and the same
            call leaves it out.
    """
    if workers < 1:
        raise UsageError(f"workers is {workers}; it must be 1 or more")
    names = [suites] if isinstance(suites, str) else list(suites)
    config = read_keywords(EvalConfig, {"suites": names, **settings})
    runs = as_runs(runs)
    for note in check_sources(config):
        print(f"note: {note}", file=sys.stderr)
    with brief_in_notebooks():
        folders = [run.folder for run in runs]
        outcome = evaluate_runs(folders, config, workers, trust_remote_code=trust_remote_code)
    for failure in outcome.failures:
        if not isinstance(failure.error, UsageError):
            raise failure.error
    if outcome.failures:
        raise UsageError("; ".join(failure_lines(outcome.failures)))
    ids = {run.folder: run.facts.run_id for run in runs}
    tables = [rows.assign(run_id=ids[folder]) for folder, rows in outcome.requested.items() if len(rows)]
    return pd.concat([held_out_rows([run.facts for run in runs]), *tables], ignore_index=True)
