"""Weighted sums of arm means, each arm with its own variance (Welch 1947, Satterthwaite 1946).

Shapes: C arms, one a family and variant; any leading dimensions are studies of their own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

CONFIDENCE = 0.95
# Spread below this many percentage points is rounding of equal scores, not variation between seeds.
NO_SPREAD = 1e-9


class Welch(NamedTuple):
    """A weighted sum of arm means with its Welch-Satterthwaite inference; every field has the same shape."""

    estimate: np.ndarray
    standard_error: np.ndarray
    df: np.ndarray
    p: np.ndarray
    low: np.ndarray
    high: np.ndarray


def welch(
    means: ArrayLike,
    variances: ArrayLike,
    counts: ArrayLike,
    weights: ArrayLike,
    confidence: float = CONFIDENCE,
    added: ArrayLike = 0.0,
    added_df: ArrayLike = math.inf,
) -> Welch:
    """Infer a weighted sum of arm means.

    With two arms and weights (1, -1) this is Welch's t-test; with 2F arms and weights +-1/F it is the
    difference averaged over F families; with F arms of differences of pairs and weights 1/F it is the paired
    t-test averaged over F families.

    Args:
        means: (..., C) arm means.
        variances: (..., C) unbiased arm variances.
        counts: (..., C) runs per arm, at least 2.
        weights: (C,) contrast weights.
        confidence: Level of the two-sided interval.
        added: (..., C) further variance of arm means, beside that of their runs.
        added_df: (..., C) its degrees of freedom.

    Returns:
        Arrays of shape (...). Arms without any spread give nan for df, p and the interval.
    """
    means, variances, counts, weights, added, added_df = (
        np.asarray(x, dtype=float) for x in (means, variances, counts, weights, added, added_df)
    )
    estimate = (weights * means).sum(-1)
    terms = weights**2 * variances / counts
    further = weights**2 * added * np.ones_like(terms)
    variance = (terms + further).sum(-1)
    standard_error = np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = variance**2 / (terms**2 / (counts - 1) + further**2 / added_df).sum(-1)
        p = 2 * special.stdtr(df, -np.abs(estimate) / standard_error)
    half_width = special.stdtrit(df, (1 + confidence) / 2) * standard_error
    return Welch(estimate, standard_error, df, p, estimate - half_width, estimate + half_width)


def welch_anova_p(means: ArrayLike, variances: ArrayLike, df: ArrayLike) -> float:
    """Test whether groups have one mean, each group's mean with its own variance (Welch 1951).

    Of the differences between two variants, one a family, this is the family x variant interaction. Two
    groups give Welch's t-test of their difference.

    Args:
        means: (K,) estimates, K at least 2.
        variances: (K,) squares of their standard errors, above zero.
        df: (K,) degrees of freedom of the variances.
    """
    means, variances, df = (np.asarray(x, dtype=float) for x in (means, variances, df))
    num_groups = len(means)
    precision = 1 / variances
    share = precision / precision.sum()
    between = (precision * (means - (share * means).sum()) ** 2).sum() / (num_groups - 1)
    excess = ((1 - share) ** 2 / df).sum()
    f = between / (1 + 2 * (num_groups - 2) / (num_groups**2 - 1) * excess)
    return float(special.fdtrc(num_groups - 1, (num_groups**2 - 1) / (3 * excess), f))
