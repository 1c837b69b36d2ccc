"""Runs with the same scores throughout: copies, or chance?

All pairs of runs are judged together: how many have the same scores, and how many of them chance makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from eval.results.rows import RunKey
from eval.significance.statistics.coincidences import Count, count_pairs, score_steps
from eval.suites.registry import HELD_OUT, is_percentage

RUN = ["family", "variant", "seed"]
SCORE = ["benchmark", "task", "metric", "head"]


@dataclass(frozen=True)
class Coincidences:
    """Runs whose every score is the same."""

    groups: Mapping[tuple[RunKey, ...], int]
    """Those runs, and how many scores each has."""
    within: Count
    """Pairs of runs of one arm."""
    across: Count
    """Pairs of runs of different arms."""


def find_coincidences(rows: pd.DataFrame) -> Coincidences:
    """Find runs with the same scores throughout, and how many pairs of them chance makes.

    A run that scores zero in everything gives one answer to everything, and is taken for no copy.

    Args:
        rows: What ``normalise_rows`` returns, each key once.
    """
    # Each training tells its own held-out loss, whoever's scores lie beside it.
    rows = rows[rows.benchmark != HELD_OUT] if (rows.benchmark != HELD_OUT).any() else rows
    table = rows.set_index([*RUN, *SCORE])["score"].unstack(SCORE).sort_index()
    groups: dict[tuple[RunKey, ...], int] = {}
    within = across = Count()
    blocks = list(_blocks(table))
    same = [_same(block) for block in blocks]
    for block, names in zip(blocks, same, strict=True):
        groups |= dict.fromkeys(_groups(block, names), block.shape[1])
    for block, names in zip(blocks, same, strict=True) if groups else ():
        counts = _count(block, names)
        within, across = within + counts[0], across + counts[1]
    return Coincidences(groups, within, across)


def _blocks(table: pd.DataFrame) -> Iterable[pd.DataFrame]:
    """Runs that have the same tasks, and their scores."""
    has_score = table.notna().to_numpy()
    for pattern in np.unique(has_score, axis=0):
        yield table.loc[(has_score == pattern).all(axis=1), pattern]


def _same(block: pd.DataFrame) -> np.ndarray:
    """Number the runs by their scores; -1 for zero throughout."""
    scores = block.to_numpy(float)
    names = np.unique(scores, axis=0, return_inverse=True)[1].reshape(-1)
    return np.where((scores == 0).all(axis=1), -1, names)


def _groups(block: pd.DataFrame, same: np.ndarray) -> Iterable[tuple[RunKey, ...]]:
    for name in np.unique(same[same >= 0]):
        if len(runs := tuple(block.index[same == name])) > 1:
            yield runs


def _count(block: pd.DataFrame, same: np.ndarray) -> tuple[Count, Count]:
    scores, arms = block.to_numpy(float), pd.factorize(block.index.droplevel("seed"))[0]
    are_percentages = [is_percentage(metric) for metric in block.columns.get_level_values("metric")]
    return count_pairs(same, arms, scores, score_steps(scores, arms, are_percentages))
