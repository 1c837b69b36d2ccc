"""The means of a suite, each under a name that says what it is a mean of.

A mean of 67 paradigms and one of 12 phenomena are two numbers: phenomena have 2 to 9 paradigms. A mean over
fewer tasks than the suite has says how many it is over.
"""

from __future__ import annotations

import pandas as pd

from eval.results.run_scores import is_percent, task_scores
from eval.suites.registry import CROSS_TASK, SUITES, UNGROUPED
from eval.suites.spec import MEAN_OF_TASKS, MeanSpec


def suite_means(rows: pd.DataFrame, items: pd.DataFrame | None = None) -> dict[str, float]:
    """Average one run's tasks of one benchmark, in percent, into the means that its suite's spec names.

    Args:
        rows: The rows of one run and one benchmark.
        items: The items of its tasks, for means over paradigms where a task has several.

    Returns:
        Name to value, the headline first; empty where nothing has a percentage, as for perplexity, and for
        tasks that no benchmark groups or that another one was trained for.
    """
    (benchmark,) = rows["benchmark"].unique()
    in_percent = rows[is_percent(rows["metric"])]
    if in_percent["task"].nunique() < 2 or benchmark in (UNGROUPED, CROSS_TASK):
        return {}
    means = SUITES[benchmark].means if benchmark in SUITES else (MEAN_OF_TASKS,)
    averaged = ((mean.of, _averaged(mean, in_percent, items)) for mean in means)
    return {f"mean of {len(part)} {of}": float(part.mean()) for of, part in averaged if len(part)}


def _averaged(mean: MeanSpec, rows: pd.DataFrame, items: pd.DataFrame | None) -> pd.Series:
    """Return what a mean is over, in percent; nothing where that is not known."""
    if mean.over == "paradigm":
        if items is None:
            return pd.Series(dtype=float)
        chosen = items if mean.tasks is None else items[items["task"].isin(mean.tasks)]
        return 100 * chosen.groupby("paradigm")["correct"].mean()
    scores = task_scores(rows) if mean.metric is None else rows[rows["metric"] == mean.metric]
    if mean.tasks is not None:
        scores = scores[scores["task"].isin(mean.tasks)]
    return scores.groupby("group")["score"].mean() if mean.over == "group" else scores["score"]
