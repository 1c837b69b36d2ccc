"""Adds scores to the tracker that a run's training was logged to."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from base.errors import UsageError
from eval.results.run_scores import is_percent
from pretrain.run.folders import RunFolder
from pretrain.run.manifest import read_completion
from pretrain.run.run_dir import read_run
from pretrain.run.tracking import SCORES, log_scores


def track_scores(run_dir: Path, rows: pd.DataFrame) -> str | None:
    """Send what a run was scored on; returns what went wrong, in one line, or None.

    Every task's primary metric is sent, and the mean over the tasks of each benchmark in percent.
    """
    try:
        if not RunFolder(run_dir).is_run:
            return None
        config = read_run(run_dir)
    except UsageError:
        return None  # a model from elsewhere, which nobody tracked
    if config.train.tracker == "none":
        return None
    completion = read_completion(RunFolder(run_dir))
    step = completion.results.get("step", 0) if completion is not None else 0
    return log_scores(run_dir, config, named_scores(rows), int(step))


def named_scores(rows: pd.DataFrame) -> dict[str, float]:
    """Name scores as a tracker shows them: ``score/blimp``, ``score/blimp/anaphor_number_agreement``."""
    primary = rows[rows["primary"]]
    named: dict[str, float] = {}
    for (benchmark, head), found in primary.groupby(["benchmark", "head"], sort=True):
        name = f"{SCORES}{benchmark}" + (f" {head}" if head else "")
        in_percent = found[is_percent(found["metric"])]
        if len(in_percent):
            named[name] = float(in_percent["score"].mean())
        if len(found) > 1 or not len(in_percent):
            named |= {
                f"{name}/{task}": float(score)
                for task, score in zip(found["task"], found["score"], strict=True)
            }
    return named
