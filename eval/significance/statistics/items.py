"""Seeds x items bootstrap: how sure a difference is when the items, too, might have been others.

Items are resampled within their task, the same ones for every run since runs share their items, and runs
within their arm (Owen 2007, "The pigeonhole bootstrap"). A resample is a vector of counts, so that the
resampled data never exist: one matrix product gives every run's score under many resamples of the items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ITEM_RESAMPLES = 2000
RUN_RESAMPLES = 5
MIN_RUNS = 5
# Entries of the largest array of item counts, 16 MB in float32.
BLOCK = 1 << 22


class TwoWayArm(NamedTuple):
    """One (family, variant) arm: its scores, and what they might be on other items and with other seeds."""

    num_runs: int
    mean: float
    variance: float
    """Unbiased, over runs; nan for one run."""
    item_means: np.ndarray
    """(B,) means of the same runs under B resamples of the items."""
    means: np.ndarray
    """(B * K,) means when each of them meets K resamples of the runs."""
    variances: np.ndarray
    """(B * K,) unbiased variances of those runs."""


class ItemInference(NamedTuple):
    """A weighted sum of arm means with what seeds and items do to it; nan where not estimable."""

    estimate: float
    standard_error_seeds: float
    """Stratified Welch standard error over runs, items fixed."""
    standard_error_items: float
    """Over resampled items, runs fixed."""
    low: float
    high: float
    num_resamples: int
    """Resamples that the interval rests on."""


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


def item_counts(num_items: int, num_resamples: int, generator: np.random.Generator) -> np.ndarray:
    """Draw with replacement and return (num_resamples, num_items) how often each item came, as float32."""
    drawn = generator.integers(num_items, size=(num_resamples, num_items))
    drawn += np.arange(num_resamples)[:, None] * num_items
    counts = np.bincount(drawn.ravel(), minlength=drawn.size)
    return counts.reshape(drawn.shape).astype(np.float32)


def resample_items(
    outcomes: np.ndarray, tasks: np.ndarray, num_resamples: int, generator: np.random.Generator
) -> np.ndarray:
    """Score every run under resamples of the items, drawn within each task.

    Args:
        outcomes: (R, I) float32. Halves and whole numbers give exact sums, whatever the order of addition.
        tasks: (I,) as ``task_sizes`` wants them.
        num_resamples: B.
        generator: Draws task after task.

    Returns:
        (R, B) scores in percent.
    """
    sizes = task_sizes(tasks)
    scores = np.zeros((len(outcomes), num_resamples))
    for start, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
        of_task = outcomes[:, start : start + size]
        step = max(1, BLOCK // size)
        for first in range(0, num_resamples, step):
            counts = item_counts(size, min(step, num_resamples - first), generator)
            scores[:, first : first + step] += (of_task @ counts.T) * (100 / (len(sizes) * size))
    return scores


def resample_arm(
    scores: np.ndarray, item_scores: np.ndarray, run_resamples: int, generator: np.random.Generator
) -> TwoWayArm:
    """Resample the runs of one arm under each resample of the items.

    Args:
        scores: (n,) scores of the runs in percent.
        item_scores: (n, B) their scores under resampled items.
        run_resamples: K, resamples of the runs for each of the items.
        generator: Draws the runs.
    """
    num_runs, num_items = item_scores.shape
    drawn = generator.integers(num_runs, size=(num_items, run_resamples, num_runs))
    resampled = np.take_along_axis(item_scores.T[:, None], drawn, axis=2).reshape(-1, num_runs)
    single = num_runs == 1
    return TwoWayArm(
        num_runs,
        float(scores.mean()),
        float("nan") if single else float(scores.var(ddof=1)),
        item_scores.mean(axis=0),
        resampled.mean(axis=1),
        np.full(len(resampled), np.nan) if single else resampled.var(axis=1, ddof=1),
    )


def infer(arms: Sequence[TwoWayArm], weights: Sequence[float], confidence: float) -> ItemInference:
    """Infer a weighted sum of arm means over both seeds and items, by bootstrap-t.

    Each resample is divided by its own standard error, sqrt(seeds^2 + items^2), where the runs resampled give
    the part of the seeds. Divided by the part of the seeds alone, intervals are too wide where items matter.

    Args:
        arms: Resampled under the same items.
        weights: (C,) contrast weights.
        confidence: Level of the two-sided interval, which takes ``MIN_RUNS`` runs in every arm.
    """
    weighted = list(zip(weights, arms, strict=True))
    estimate = sum(w * arm.mean for w, arm in weighted)
    seeds = sum(w**2 * arm.variance / arm.num_runs for w, arm in weighted)
    items = float(np.sum([w * arm.item_means for w, arm in weighted], axis=0).var(ddof=1))
    known = ItemInference(estimate, math.sqrt(seeds), math.sqrt(items), math.nan, math.nan, 0)
    if min(arm.num_runs for arm in arms) < MIN_RUNS:
        return known
    resampled = np.sum([w * arm.means for w, arm in weighted], axis=0)
    spread = np.sum([w**2 * arm.variances / arm.num_runs for w, arm in weighted], axis=0) + items
    usable = spread > 0
    if not usable.any():
        return known
    t = (resampled[usable] - estimate) / np.sqrt(spread[usable])
    t_low, t_high = np.quantile(t, [(1 - confidence) / 2, (1 + confidence) / 2])
    total = math.sqrt(seeds + items)
    return known._replace(
        low=estimate - t_high * total, high=estimate - t_low * total, num_resamples=int(usable.sum())
    )
