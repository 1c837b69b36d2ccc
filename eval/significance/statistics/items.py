"""Seeds and items: how sure a difference is when the items, too, might have been others.

Both add to the variance of a difference: seeds by how far runs of an arm lie apart, items by how far these
lie apart in the difference itself, within their task, as resampling both would find (Owen 2007, "The
pigeonhole bootstrap"). What a run and an item do together is in both: the interval is rather too wide than
too narrow.

Shapes: n runs of an arm, I items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special


class ItemInference(NamedTuple):
    """A weighted sum of arm means with what seeds and items do to it; nan where not estimable."""

    estimate: float
    standard_error_seeds: float
    """Stratified Welch standard error over runs, items fixed."""
    standard_error_items: float
    """Over items, runs fixed."""
    low: float
    high: float


def task_sizes(tasks: np.ndarray) -> np.ndarray:
    """Count the items of each task.

    Args:
        tasks: (I,) task of each item as whole numbers from 0, ascending.

    Raises:
        ValueError: If they do not ascend in steps of one.
    """
    if not len(tasks) or tasks[0] != 0 or not np.isin(np.diff(tasks), (0, 1)).all():
        raise ValueError("items must be sorted by task, tasks numbered from 0 without gaps")
    return np.bincount(tasks)


def benchmark_scores(outcomes: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Return (R,) scores in percent: the unweighted mean over tasks of each task's mean outcome.

    Args:
        outcomes: (R, I) outcome of each run on each item, from 0 to 1.
        tasks: (I,) as ``task_sizes`` wants them.
    """
    sizes = task_sizes(tasks)
    starts = np.cumsum(sizes) - sizes
    return 100 * (np.add.reduceat(outcomes, starts, axis=1, dtype=float) / sizes).mean(axis=1)


def infer(
    arms: Sequence[np.ndarray], tasks: np.ndarray, weights: Sequence[float], confidence: float
) -> ItemInference:
    """Infer a weighted sum of arm means over both seeds and items, by Student's t.

    Degrees of freedom are Satterthwaite's (1946), over the variances of all arms and of all tasks.

    Args:
        arms: (n, I) outcome of each run of an arm on each item, from 0 to 1.
        tasks: (I,) as ``task_sizes`` wants them.
        weights: (C,) contrast weights.
        confidence: Level of the two-sided interval, which takes two runs in every arm.
    """
    scores = [benchmark_scores(arm, tasks) for arm in arms]
    counts, sizes = np.array([len(x) for x in scores]), task_sizes(tasks)
    estimate = sum(w * x.mean() for w, x in zip(weights, scores, strict=True))
    of_seeds = [w**2 * x.var(ddof=1) / len(x) for w, x in zip(weights, scores, strict=True) if len(x) > 1]
    of_items = _variances_of_tasks(arms, sizes, weights)
    seeds = sum(of_seeds) if len(of_seeds) == len(arms) else math.nan
    error = math.sqrt(seeds + of_items.sum())
    known = ItemInference(float(estimate), math.sqrt(seeds), math.sqrt(of_items.sum()), math.nan, math.nan)
    if not error > 0:
        return known
    parts = np.concatenate([of_seeds, of_items]), np.concatenate([counts, sizes]) - 1.0
    df = error**4 / sum(part**2 / own for part, own in zip(*parts, strict=True) if own)
    reach = float(special.stdtrit(df, (1 + confidence) / 2)) * error
    return known._replace(low=estimate - reach, high=estimate + reach)


def _variances_of_tasks(
    arms: Sequence[np.ndarray], sizes: np.ndarray, weights: Sequence[float]
) -> np.ndarray:
    """(T,) what the items of each task add to the variance of the difference; a single one adds nothing."""
    of_item = 100 * np.sum([w * arm.mean(0, dtype=float) for w, arm in zip(weights, arms, strict=True)], 0)
    of_task = np.split(of_item, np.cumsum(sizes)[:-1])
    return np.array([x.var(ddof=1) / len(x) if len(x) > 1 else 0.0 for x in of_task]) / len(sizes) ** 2
