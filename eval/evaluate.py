"""Runs and suites: finds what is not scored yet, has it measured, writes rows and items after every task."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from eval.config import EvalConfig
from eval.loading import RunIdentity, identify_run, weights_hash
from eval.plan import TaskResult, Work, work_units
from eval.progress import Progress
from eval.store import ResultStore, sole_evaluator
from ffn_variants.errors import UsageError


def evaluate_run(run_dir: Path, config: EvalConfig, progress: bool = True) -> pd.DataFrame:
    """Score a run on every task asked for, leaving out those that are done.

    Args:
        run_dir: A run's folder, with a trained model.
        config: The suites, where their data is, and how they are scored.
        progress: Show a bar with the current score, or lines where there is no terminal.

    Returns:
        All rows of the run, those of earlier evaluations included.

    Raises:
        UsageError: For a folder that is no run or has no model, and for faulty data; what was scored before
            is kept.
    """
    run = identify_run(run_dir)
    with sole_evaluator(run_dir):
        store = ResultStore(run_dir, weights_hash(run_dir))
        missing = [work for work in work_units(run_dir, run, config) if not _is_done(store, work)]
        with Progress(run.run_id, len(missing), enabled=progress) as shown:
            if missing and store.is_stale:
                shown.say("the weights have changed since the last evaluation: its results are dropped")
            for work in missing:
                shown.start(work.key)
                for task, result in work.measure(shown.detail).items():
                    rows = _rows(run, work.benchmark, task, result)
                    store.record(work.benchmark, task, work.protocols[task], rows, result.items)
                    shown.finish(f"{work.benchmark}/{task}", result.metrics)
                shown.end()
        return store.rows()


def is_evaluated(run_dir: Path, config: EvalConfig) -> bool:
    """Whether every task asked for is scored, under this protocol and with the run's present weights."""
    try:
        run = identify_run(run_dir)
        weights = weights_hash(run_dir)
    except UsageError:
        return False
    store = ResultStore(run_dir, weights)
    return all(_is_done(store, work) for work in work_units(run_dir, run, config))


def _is_done(store: ResultStore, work: Work) -> bool:
    return all(store.is_done(work.benchmark, task, protocol) for task, protocol in work.protocols.items())


def _rows(run: RunIdentity, benchmark: str, task: str, result: TaskResult) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "run_id": run.run_id,
            "family": run.family,
            "variant": run.variant,
            "seed": run.seed,
            "benchmark": benchmark,
            "task": task,
            "group": result.group,
            "metric": metric,
            "score": score,
            "n_items": len(result.items),
        }
        for metric, score in result.metrics.items()
    )
