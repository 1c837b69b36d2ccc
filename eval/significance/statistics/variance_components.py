"""Where a benchmark score's variance comes from: random-effects ANOVA by the method of moments.

Within one arm every run (seed) answers every item; items lie in tasks and tasks in groups (phenomena):

    outcome = mean + seed + group + task + item + seed:group + seed:task + residual

where the residual holds what seed and item do together. A score is the unweighted mean over tasks. Means are
therefore unweighted at every level, and for those the expected mean squares below are exact whatever the
numbers of items and tasks (Searle, Casella and McCulloch 1992, "Variance Components", chapter 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from eval.significance.statistics.items import task_sizes


class Components(NamedTuple):
    """One number for each source of variance; nan where the design cannot tell it from the one above it."""

    seed: float
    """Seeds, on all groups alike."""
    seed_group: float
    """Seeds, on each group in its own way; nan for a single group."""
    seed_task: float
    """Seeds, on each task of a group in its own way; nan where no group has two tasks."""
    residual: float
    """Seeds, on each item of a task in its own way."""
    group: float
    """Difficulty of groups; nan for a single one."""
    task: float
    """Difficulty of the tasks of a group; nan where no group has two."""
    item: float
    """Difficulty of the items of a task."""


def score_shares(tasks: np.ndarray, groups: np.ndarray) -> Components:
    """Return what each variance is multiplied by in the variance of one run's score.

    Args:
        tasks: (I,) task of each item, as ``task_sizes`` wants them.
        groups: (T,) group of each task, whole numbers from 0.
    """
    sizes, group_sizes = task_sizes(tasks), np.bincount(groups)
    num_tasks = len(sizes)
    of_group = float((group_sizes**2).sum()) / num_tasks**2
    of_item = float((1 / sizes).sum()) / num_tasks**2
    return Components(1.0, of_group, 1 / num_tasks, of_item, of_group, 1 / num_tasks, of_item)


def arm_components(outcomes: np.ndarray, tasks: np.ndarray, groups: np.ndarray) -> Components:
    """Estimate the variances within one arm, unbiased and so possibly below zero.

    Args:
        outcomes: (n, I) outcomes from 0 to 1 of n >= 2 runs.
        tasks: (I,) task of each item, as ``task_sizes`` wants them.
        groups: (T,) group of each task, whole numbers from 0.

    Returns:
        Variances in squared percentage points. Times ``score_shares``, those of ``seed`` to ``residual`` add
        up to the unbiased variance of the scores over seeds.
    """
    percent, sizes = 100 * outcomes.astype(float), task_sizes(tasks)
    of_task = np.split(percent, np.cumsum(sizes)[:-1], axis=1)
    residual, item = _crossed(of_task, [np.zeros(size) for size in sizes], [np.zeros(size) for size in sizes])

    task_means = np.stack([block.mean(axis=1) for block in of_task], axis=1)
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    seed_noise, own_noise = np.nan_to_num(residual) / sizes, np.nan_to_num(item) / sizes
    seed_task, task = _crossed(
        [task_means[:, m] for m in members], [seed_noise[m] for m in members], [own_noise[m] for m in members]
    )

    group_means = np.stack([task_means[:, m].mean(axis=1) for m in members], axis=1)
    seed_noise = np.array([(np.nan_to_num(seed_task) + seed_noise[m]).sum() / len(m) ** 2 for m in members])
    own_noise = np.array([(np.nan_to_num(task) + own_noise[m]).sum() / len(m) ** 2 for m in members])
    seed_group, group = _crossed([group_means], [seed_noise], [own_noise])

    of_score = np.array([len(m) / len(sizes) for m in members]) ** 2
    within = (of_score * (np.nan_to_num(seed_group) + seed_noise)).sum()
    seed = float(task_means.mean(axis=1).var(ddof=1) - within)
    return Components(seed, seed_group, seed_task, residual, group, task, item)


def pooled_components(arms: Sequence[np.ndarray], tasks: np.ndarray, groups: np.ndarray) -> Components | None:
    """Average the variances over arms of two or more runs by their degrees of freedom; None without one."""
    arms = [arm for arm in arms if len(arm) > 1]
    if not arms:
        return None
    estimates = [arm_components(arm, tasks, groups) for arm in arms]
    pooled = np.average(estimates, axis=0, weights=[len(arm) - 1 for arm in arms])
    return Components(*map(float, pooled))


def _crossed(
    blocks: Sequence[np.ndarray], seed_noise: Sequence[np.ndarray], own_noise: Sequence[np.ndarray]
) -> tuple[float, float]:
    """Estimate the variances of seed x unit and of units from blocks of (n runs, k units) means.

    Args:
        blocks: Each the units of one block; those of a single unit tell nothing.
        seed_noise: For each block (k,) the variance that a unit's mean has over seeds from what lies in it.
        own_noise: The same for what all seeds share.

    Returns:
        Both pooled over blocks by k - 1; nan, nan where no block has two units.
    """
    num_runs = len(blocks[0])
    df = interaction = units = expected_seed = expected_own = 0.0
    for block, of_seed, own in zip(blocks, seed_noise, own_noise, strict=True):
        k = block.shape[1]
        unit_means = block.mean(axis=0)
        rest = block - block.mean(axis=1, keepdims=True) - unit_means + block.mean()
        df += k - 1
        interaction += (rest**2).sum() / (num_runs - 1)
        units += ((unit_means - unit_means.mean()) ** 2).sum()
        expected_seed += (k - 1) * of_seed.mean()
        expected_own += (k - 1) * own.mean()
    if not df:
        return float("nan"), float("nan")
    of_interaction = (interaction - expected_seed) / df
    of_units = (units - expected_own - expected_seed / num_runs) / df - of_interaction / num_runs
    return float(of_interaction), float(of_units)
