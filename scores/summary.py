"""Means of suites, and the tables with which ``ffn-ablations eval`` ends of what was asked for.

The means of a suite, each under a name that says what it is a mean of.

A mean of 67 paradigms and one of 12 phenomena are two numbers: phenomena have 2 to 9 paradigms. A mean over
fewer tasks than the suite has says how many it is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from scores.heads.registry import DEFAULT_HEAD
from scores.rows import NO_HEAD
from scores.run_scores import decimals, is_percent, task_scores
from scores.suites.registry import CROSS_TASK, SUITES, UNGROUPED
from scores.suites.spec import MEAN_OF_TASKS, MeanSpec


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


def summary(tables: Sequence[pd.DataFrame]) -> str:
    """Return a table for each benchmark: tasks down, runs across, a suite's means below its tasks.

    Where one run was scored under several heads, they stand across; of several runs, each head has a table.
    A task's headline metric comes first.

    Args:
        tables: The rows of each run, in the order in which tasks and heads are to stand.
    """
    rows = pd.concat(tables)
    return "\n".join(
        f"{title}\n{_table(part, across)}\n"
        for benchmark in rows["benchmark"].unique()
        for title, part, across in _parts(benchmark, rows[rows["benchmark"] == benchmark])
    )


def _parts(benchmark: str, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Split a benchmark's rows into tables: title, rows, and the column that stands across."""
    heads, runs = rows["head"].unique(), rows["run_id"].unique()
    if len(heads) > 1 and len(runs) == 1:
        yield f"{benchmark}, {runs[0]}", rows, "head"
        return
    for head in heads:
        title = benchmark if heads.tolist() in ([NO_HEAD], [DEFAULT_HEAD]) else f"{benchmark}, head {head}"
        yield title, rows[rows["head"] == head], "run_id"


def _table(rows: pd.DataFrame, across: str) -> str:
    columns = list(rows[across].unique())
    table = rows.pivot(index=["task", "metric"], columns=across, values="score")
    table = table.loc[_headline_first(rows), columns]
    means = pd.DataFrame({name: suite_means(of_one) for name, of_one in rows.groupby(across, sort=False)})
    means.index = pd.MultiIndex.from_tuples([(name, "") for name in means.index], names=table.index.names)
    table = pd.concat([table, means]).rename_axis(columns=None)
    digits = table.index.get_level_values("metric").map(decimals)
    texts = [
        ["-" if pd.isna(score) else f"{score:.{places}f}" for score in scores]
        for places, scores in zip(digits, table.to_numpy(), strict=True)
    ]
    return pd.DataFrame(texts, index=table.index, columns=table.columns).to_string()


def _headline_first(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """List every task and metric in the order of the rows, but each task's headline metric first."""
    headlines = task_scores(rows).drop_duplicates("task").set_index("task")["metric"]
    keys = list(dict.fromkeys(zip(rows["task"], rows["metric"], strict=True)))
    tasks = {task: place for place, task in enumerate(rows["task"].unique())}
    return sorted(keys, key=lambda key: (tasks[key[0]], key[1] != headlines[key[0]]))
