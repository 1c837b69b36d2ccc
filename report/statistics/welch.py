"""Weighted sums of arm means, each arm with its own variance (Welch 1947, Satterthwaite 1946).

An arm's mean may lie above the truth by what the choice of its rate missed, of which no more is known than a
mean square. Such regrets are not drawn about zero. All are positive: within one side of a contrast they add
up, and between the sides they cancel at best. So the square of their sum on each side is added to the
variance of a contrast, not the sum of their squares. Three arms on a side that each miss by 0.02 miss by 0.02
in the mean, not by 0.02 / sqrt(3).

Shapes: C arms, one a family and variant; any leading dimensions are studies of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    regret: np.ndarray
    """Root of what choices of rates add to the variance: a shift of which no sign is known."""


def welch(
    means: ArrayLike,
    variances: ArrayLike,
    counts: ArrayLike,
    weights: ArrayLike,
    confidence: float = CONFIDENCE,
    added: ArrayLike = 0.0,
    added_df: ArrayLike = math.inf,
    variance_df: ArrayLike | None = None,
) -> Welch:
    """Infer a weighted sum of arm means.

    With two arms and weights (1, -1) this is Welch's t-test; with 2F arms and weights +-1/F it is the
    difference averaged over F families; with F arms of differences of pairs and weights 1/F it is the paired
    t-test averaged over F families.

    Args:
        means: (..., C) arm means.
        variances: (..., C) arm variances.
        counts: (..., C) runs per arm, at least 2.
        weights: (C,) contrast weights.
        confidence: Level of the two-sided interval.
        added: (..., C) mean squares of what arm means may lie too high by, beside what their runs tell.
        added_df: (..., C) their degrees of freedom.
        variance_df: (..., C) degrees of freedom of the variances; None for runs less one.

    Returns:
        Arrays of shape (...). Arms without any spread give nan for df, p and the interval.
    """
    means, variances, counts, weights, added, added_df = (
        np.asarray(x, dtype=float) for x in (means, variances, counts, weights, added, added_df)
    )
    df_of_arms = counts - 1 if variance_df is None else np.asarray(variance_df, dtype=float)
    estimate = (weights * means).sum(-1)
    terms = weights**2 * variances / counts
    further, squares = sum_of_regrets(added * np.ones_like(terms), added_df, weights)
    variance = terms.sum(-1) + further
    standard_error = np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = variance**2 / ((terms**2 / df_of_arms).sum(-1) + squares)
        p = 2 * special.stdtr(df, -np.abs(estimate) / standard_error)
    half_width = special.stdtrit(df, (1 + confidence) / 2) * standard_error
    ends = estimate - half_width, estimate + half_width
    return Welch(estimate, standard_error, df, p, *ends, np.sqrt(further))


def sum_of_regrets(squares: ArrayLike, df: ArrayLike, weights: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Sum what arms may lie too high by over the sides of a contrast.

    Args:
        squares: (..., C) mean squares of it.
        df: (..., C) their degrees of freedom.
        weights: (C,) contrast weights.

    Returns:
        What is added to the variance of the contrast, and its part of the denominator in Satterthwaite's
        formula, its square over its degrees of freedom; both (...). A side's sum S = (sum |w| b)^2, with b
        the roots, has a variance of 2 S sum w^2 b^2 / df by the delta method.
    """
    squares, df, weights = (np.asarray(x, dtype=float) for x in (squares, df, weights))
    variance, denominator = np.zeros(squares.shape[:-1]), np.zeros(squares.shape[:-1])
    for side in (weights > 0, weights < 0):
        own = np.where(side, weights**2 * squares, 0.0)
        total = np.sqrt(own).sum(-1) ** 2
        variance = variance + total
        denominator = denominator + total * (own / df).sum(-1)
    return variance, denominator


def hedges_g(estimate: float, arms: Sequence[np.ndarray]) -> float | None:
    """Standardise by the spread within arms, with Hedges' (1981) small-sample factor 1 - 3/(4 df - 1).

    Args:
        estimate: The difference.
        arms: The runs of every arm it is made of.

    Returns:
        None where no arm has any spread.
    """
    df = sum(len(arm) - 1 for arm in arms)
    if df == 0:
        return None
    pooled = math.sqrt(sum(((arm - arm.mean()) ** 2).sum() for arm in arms) / df)
    return None if pooled < NO_SPREAD else estimate / pooled * (1 - 3 / (4 * df - 1))
