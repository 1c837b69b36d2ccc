"""How many seeds an outcome needs to tell two variants apart: a measure to compare outcomes by."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eval.significance.statistics.power import runs_to_detect
from eval.significance.statistics.welch import NO_SPREAD

LEVEL = 0.05


def variance_ratio(arms: Sequence[Sequence[np.ndarray]]) -> float | None:
    """Estimate the variance between variants' true means over that between the seeds of one.

    Means of few seeds differ where variants do not. So it is not the ratio of what is seen, but of a one-way
    analysis of variance in each family: with F its statistic, n seeds in each of V variants and N = nV,
    (F (N - V - 2) / (N - V) - 1) / n, whose expectation is the true ratio (by the mean of a noncentral F:
    Johnson, Kotz and Balakrishnan 1995, chapter 30). It is averaged over families and is negative where
    variants differ less than seeds alone would have it. With different numbers of seeds, n is their harmonic
    mean.

    Args:
        arms: For each family and each of V variants (n,) scores of its runs.

    Returns:
        None for fewer than two variants, for too few seeds, or where seeds do not differ.
    """
    ratios = [_ratio([arm for arm in family if len(arm)]) for family in arms]
    known = [ratio for ratio in ratios if ratio is not None]
    return float(np.mean(known)) if len(known) == len(arms) else None


def _ratio(arms: Sequence[np.ndarray]) -> float | None:
    df = sum(map(len, arms)) - len(arms)
    if len(arms) < 2 or df < 3:
        return None
    within = sum(float(((arm - arm.mean()) ** 2).sum()) for arm in arms) / df
    if within < NO_SPREAD**2:
        return None
    size = len(arms) / sum(1 / len(arm) for arm in arms)
    f = size * float(np.var([arm.mean() for arm in arms], ddof=1)) / within
    return (f * (df - 2) / df - 1) / size


def typical_seeds(ratio: float) -> int | None:
    """Return the seeds in each arm that find the typical difference of two variants with 80% power.

    That is the root of the mean square of the differences between two variants. The test is Welch's at 5%,
    two-sided and not corrected.

    Args:
        ratio: What ``variance_ratio`` returns.

    Returns:
        None where it is more than ``MAX_RUNS``, or no difference is left once seeds are accounted for.
    """
    if ratio <= 0:
        return None
    return runs_to_detect(math.sqrt(2 * ratio), [1.0, 1.0], [1.0, -1.0], LEVEL)
