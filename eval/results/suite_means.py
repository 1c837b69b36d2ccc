"""The means of a suite, each under a name that says what it is a mean of.

A mean of 67 paradigms and one of 12 phenomena are two numbers: phenomena have 2 to 9 paradigms. A mean over
fewer tasks than the suite has says how many it is over.
"""

from __future__ import annotations

import pandas as pd

from eval.config import UNGROUPED
from eval.results.run_scores import is_percent, task_scores
from eval.zero_shot.blimp import BLIMP_PARADIGMS, SUPPLEMENT_TASKS

ENTITY_METRIC = "accuracy_by_operations"


def suite_means(rows: pd.DataFrame, items: pd.DataFrame | None = None) -> dict[str, float]:
    """Average one run's tasks of one benchmark, in percent.

    Args:
        rows: The rows of one run and one benchmark.
        items: The items of its tasks, for means over paradigms where a task has several, as in BabyLM's
            filtered BLiMP: the 2023 pipeline counts each pair of a task, the 2025 pipeline each paradigm.

    Returns:
        Name to value, the headline first; empty where nothing has a percentage, as for perplexity, and for
        tasks that no benchmark groups.
    """
    (benchmark,) = rows["benchmark"].unique()
    in_percent = rows[is_percent(rows["metric"])]
    if in_percent["task"].nunique() < 2 or benchmark == UNGROUPED:
        return {}
    scores = task_scores(in_percent).set_index("task")
    score = scores["score"]
    if benchmark in ("blimp", "blimp-fast"):
        phenomena = score.groupby(scores["group"]).mean()
        return {
            f"mean of {len(score)} paradigms": float(score.mean()),
            f"mean of {len(phenomena)} phenomena": float(phenomena.mean()),
        }
    if benchmark == "babylm23":
        return _babylm23_means(score, items)
    means = {f"mean of {len(score)} tasks": float(score.mean())}
    if benchmark == "entity-tracking":
        of_operations = rows.loc[rows["metric"] == ENTITY_METRIC, "score"]
        means[f"mean of {len(of_operations)} tasks, each over its numbers of operations"] = float(
            of_operations.mean()
        )
    return means


def _babylm23_means(score: pd.Series, items: pd.DataFrame | None) -> dict[str, float]:
    parts = {
        "tasks": score,
        "filtered BLiMP tasks": score[score.index.isin(BLIMP_PARADIGMS)],
        "supplement tasks": score[score.index.isin(SUPPLEMENT_TASKS)],
    }
    if items is not None:
        filtered = items[items["task"].isin(BLIMP_PARADIGMS)]
        parts["filtered BLiMP paradigms"] = 100 * filtered.groupby("paradigm")["correct"].mean()
    return {f"mean of {len(part)} {name}": float(part.mean()) for name, part in parts.items() if len(part)}
