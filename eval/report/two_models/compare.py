"""Pairs the items of two models, and compares them with clusters of items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from base.errors import UsageError
from eval.report.two_models.items import ITEM_KEY, ModelItems
from eval.results.outcome import Declared, Outcome, find_outcome
from eval.significance.statistics.corrections import BenjaminiHochberg, Holm
from eval.significance.statistics.paired_items import McNemar, PairedItems, compare_paired, mcnemar

Cluster = Literal["task", "group", "item"]
ENOUGH_CLUSTERS = 5
"""Fewer tasks than these say too little of how much tasks differ; then items count as independent."""


@dataclass(frozen=True, kw_only=True)
class ItemDifference:
    """One benchmark, or a part of one, in one metric: the second model minus the first.

    Attributes:
        outcome: What the scores are.
        part: A task or group; empty for the whole benchmark.
        means: Of both models.
        num_items: Paired.
        cluster: What counts as independent.
        paired: The inference.
        p_corrected: Over all benchmarks (Holm), or over all parts of one (Benjamini and Hochberg).
        right: Items that only one has right; None where items are not right or wrong.
    """

    outcome: Outcome
    part: str
    means: tuple[float, float]
    num_items: int
    cluster: Cluster
    paired: PairedItems
    p_corrected: float | None = None
    right: McNemar | None = None

    @property
    def num_clusters(self) -> int:
        """How many independent clusters the items make."""
        return self.paired.df + 1


@dataclass(frozen=True, kw_only=True)
class TwoModels:
    """Everything that the page says.

    Attributes:
        first: One model.
        second: The other.
        wholes: Every benchmark and metric that both have.
        parts: The tasks, or groups, of those that have several.
        notes: What was left out, in sentences.
    """

    first: ModelItems
    second: ModelItems
    wholes: tuple[ItemDifference, ...]
    parts: tuple[ItemDifference, ...]
    notes: tuple[str, ...] = ()


def compare_models(first: ModelItems, second: ModelItems, cluster: Cluster | None = None) -> TwoModels:
    """Compare two models on the items that both were scored on.

    Args:
        first: What is subtracted.
        second: What it is subtracted from.
        cluster: What counts as independent; None takes tasks where there are ``ENOUGH_CLUSTERS`` of them.

    Raises:
        UsageError: If they share no items, or items of one id differ.
    """
    both = first.items.merge(second.items, on=list(ITEM_KEY), suffixes=("_1", "_2"))
    if both.empty:
        raise UsageError(
            f"{first.path} and {second.path} share no items; score both on the same tasks, with the same tool"
        )
    unlike = both[both["text_1"] != both["text_2"]]
    if len(unlike):
        row = unlike.iloc[0]
        raise UsageError(
            f"item {row['item']} of {row['task']} is not the same in {first.path} and {second.path}; were "
            "they scored with the same version of the task?"
        )
    wholes: list[ItemDifference] = []
    parts: list[ItemDifference] = []
    for (benchmark, metric), rows in both.groupby(["benchmark", "metric"], sort=True):
        outcome = _outcome(str(benchmark), str(metric), rows)
        if outcome is None:
            continue
        wholes.append(_difference(outcome, "", rows, _cluster(rows, cluster)))
        parts += _parts(outcome, rows)
    corrected = Holm().adjust([whole.paired.p for whole in wholes])
    return TwoModels(
        first=first,
        second=second,
        wholes=tuple(replace(x, p_corrected=p) for x, p in zip(wholes, corrected, strict=True)),
        parts=tuple(parts),
        notes=tuple(_notes(first, second, both)),
    )


def _outcome(benchmark: str, metric: str, rows: pd.DataFrame) -> Outcome | None:
    """Say what scores are; None for one of which nothing is known."""
    scores = [*rows["score_1"], *rows["score_2"]]
    name, label = benchmark.partition(" (")[0], f"{benchmark} {metric.replace('_', ' ')}"
    try:
        return find_outcome(name, [metric], scores, Declared(), label)
    except UsageError:  # a loss of which nobody says the direction
        return None


def _cluster(rows: pd.DataFrame, asked: Cluster | None) -> Cluster:
    if asked is not None:
        return asked
    return "task" if rows["task"].nunique() >= ENOUGH_CLUSTERS else "item"


def _difference(outcome: Outcome, part: str, rows: pd.DataFrame, cluster: Cluster) -> ItemDifference:
    first, second = rows["score_1"].to_numpy(float), rows["score_2"].to_numpy(float)
    weights = rows["weight_1"].to_numpy(float)
    clusters = np.arange(len(rows)) if cluster == "item" else _labels(rows, cluster)
    is_share = bool(rows["is_share_1"].all() and rows["is_share_2"].all())
    return ItemDifference(
        outcome=outcome,
        part=part,
        means=(float(np.average(first, weights=weights)), float(np.average(second, weights=weights))),
        num_items=len(rows),
        cluster=cluster,
        paired=compare_paired(second, first, clusters, weights),
        right=mcnemar(second > 0, first > 0) if is_share else None,
    )


def _labels(rows: pd.DataFrame, cluster: Cluster) -> np.ndarray:
    column = "group_1" if cluster == "group" and (rows["group_1"] != "").all() else "task"
    return rows[column].to_numpy(str)


def _parts(outcome: Outcome, rows: pd.DataFrame) -> list[ItemDifference]:
    """Compare every group, or every task where there are no groups of several tasks."""
    groups = rows["group_1"].nunique()
    column = "group_1" if 1 < groups < rows["task"].nunique() else "task"
    if rows[column].nunique() < 2:
        return []
    found = [
        _difference(outcome, str(part), of_part, _cluster(of_part, None))
        for part, of_part in rows.groupby(column, sort=True)
    ]
    corrected = BenjaminiHochberg().adjust([x.paired.p for x in found])
    return [replace(x, p_corrected=p) for x, p in zip(found, corrected, strict=True)]


def _notes(first: ModelItems, second: ModelItems, both: pd.DataFrame) -> Sequence[str]:
    notes = []
    for model, other in ((first, second), (second, first)):
        if alone := sorted(set(model.items["task"]) - set(other.items["task"])):
            notes.append(f"only {model.name} was scored on {', '.join(alone[:5])}{' ..' * (len(alone) > 5)}")
    for model in (first, second):
        in_both = model.items[model.items["task"].isin(set(both["task"]))]
        if missing := len(in_both) - len(both[both["task"].isin(set(in_both["task"]))]):
            notes.append(f"{missing} scores of {model.name} have no partner and are left out")
    return notes
