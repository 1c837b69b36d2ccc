"""One-sided t-tests as leaderboards ask for them, and how often a result would pass again."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from eval.significance.statistics.equivalence import noncentral_t


class OneSided(NamedTuple):
    """A test that a mean is above zero; nan where there are too few runs, or none that differ."""

    estimate: float
    standard_error: float
    df: float
    p: float


def above_zero(estimate: float, standard_error: float, df: float) -> OneSided:
    """Test whether an estimate is above zero by Student's t."""
    if not standard_error > 0 or not df > 0:
        return OneSided(estimate, standard_error, df, math.nan)
    p = float(special.stdtr(df, -estimate / standard_error))
    return OneSided(estimate, standard_error, df, p)


def one_sample(values: np.ndarray, threshold: float) -> OneSided:
    """Test whether the mean of runs is above a threshold (``scipy.stats.ttest_1samp``, greater).

    Args:
        values: (n,) scores, at least two.
        threshold: What the mean is compared with.
    """
    n = len(values)
    error = math.sqrt(_variance(values) / n) if n > 1 else math.nan
    return above_zero(float(np.mean(values)) - threshold, error, n - 1)


def two_sample(values: np.ndarray, others: np.ndarray, by: float) -> OneSided:
    """Test whether runs are above others by more than ``by`` (Welch's test, greater).

    Args:
        values: (n,) scores, at least two.
        others: (m,) scores, at least two.
        by: How far above the others the mean is to be.
    """
    estimate = float(np.mean(values) - np.mean(others)) - by
    if min(len(values), len(others)) < 2:
        return OneSided(estimate, math.nan, math.nan, math.nan)
    parts = [_variance(x) / len(x) for x in (values, others)]
    total = sum(parts)
    squares = sum(part**2 / (len(x) - 1) for part, x in zip(parts, (values, others), strict=True))
    return above_zero(estimate, math.sqrt(total), total**2 / squares if squares else math.nan)


def _variance(values: np.ndarray) -> float:
    """Return 0 of runs that are alike, of which rounding of their mean would leave more."""
    return float(np.var(values, ddof=1)) if np.ptp(values) > 0 else 0.0


def passes_again(found: OneSided, level: float) -> float:
    """Return how often as many new runs would pass, if the mean and the spread seen were the true ones.

    By the noncentral t distribution; for a result that just passes it is about one half.
    """
    if math.isnan(found.p):
        return math.nan
    critical = float(special.stdtrit(found.df, 1 - level))
    return 1 - noncentral_t(critical, found.df, found.estimate / found.standard_error)
