"""Which units of work are scored already."""

from __future__ import annotations

from pathlib import Path

from base.errors import UsageError
from eval.config import EvalConfig
from eval.models.identity import identify_run, known_weights_hash
from eval.results.store import ResultStore
from eval.runner.work_units import Work, work_units


def is_done(work: Work, store: ResultStore) -> bool:
    """Whether all tasks of a unit are scored under its protocol, in all of its metrics."""
    return all(
        store.is_done(work.benchmark, task, protocol, work.metrics.get(task, ()))
        for task, protocol in work.protocols.items()
    )


def is_evaluated(run_dir: Path, config: EvalConfig) -> bool:
    """Whether every task asked for is scored, under this protocol and with the run's present weights."""
    try:
        run = identify_run(run_dir)
        weights = known_weights_hash(run_dir)
    except UsageError:
        return False
    store = ResultStore(run_dir, weights)
    return all(is_done(work, store) for work in work_units(run_dir, run, config))
