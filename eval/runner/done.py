"""Which units of work are scored already."""

from __future__ import annotations

from pathlib import Path

from eval.config import EvalConfig
from eval.models.identity import identify_run, weights_hash
from eval.results.store import Scores, read_scores
from eval.runner.work_units import Work, work_units
from pretrain.run.folders import RunFolder


def is_done(work: Work, scores: Scores) -> bool:
    """Whether all tasks of a unit are scored under its protocol, in all of its metrics."""
    return all(
        scores.is_done(work.benchmark_of(task), task, protocol, work.metrics.get(task, ()))
        for task, protocol in work.protocols.items()
    )


def is_evaluated(run_dir: Path, config: EvalConfig) -> bool:
    """Whether every task asked for is scored, under this protocol and with the run's present weights.

    Whatever is wrong with a run is told by whoever evaluates it: here it is a run that is not evaluated, so
    that one broken run stops no other.
    """
    try:
        run, weights = identify_run(run_dir), weights_hash(run_dir)
        units = list(work_units(run_dir, run, config))
        if not units:  # as in a study of held-out losses alone
            return True
        scores = read_scores(RunFolder(run_dir))
        if scores.ledger is None or scores.wrong or scores.ledger.weights != weights:
            return False
        return all(is_done(work, scores) for work in units)
    except Exception:
        return False
