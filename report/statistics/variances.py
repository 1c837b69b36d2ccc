"""Variances of arms over seeds, as differences are judged with.

Three or five runs tell little of a variance. So an arm that spreads less than its own runs and what is usual
among the arms together suggest is given the moderated variance (Smyth 2004), with its degrees of freedom. An
arm that spreads more keeps its own variance and its own degrees of freedom: what is usual tells nothing of an
arm that is not. An arm of far fewer runs than the others keeps its own as well, as a contrast with it rests
on its variance alone. Where few arms tell what is usual, or arms differ so much that nothing is, all keep
their own, which is Welch's test.

The rule was chosen by simulation of false claims (docs/error-rates.md), never by looking at a verdict.

Shapes: any leading dimensions are studies of their own, A arms of one family and outcome.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

FEWEST_ARMS = 6
"""Below, arms do not tell what is usual."""
FAR_FEWER = 0.5
"""Of the runs of the middle arm: an arm with fewer keeps its own variance."""
UNLIKE = 0.7
"""Standard deviation of the logarithm of arms' standard deviations, beyond which nothing is usual."""
PRIOR_DF = 2.0
"""Of what is usual, when it is weighed against an arm's own runs: few, as spreads do differ between arms."""


class Variances(NamedTuple):
    """Of a single run, and their degrees of freedom; both (..., A)."""

    variance: np.ndarray
    df: np.ndarray


def usual_variance(variances: ArrayLike, df: ArrayLike) -> np.ndarray:
    """(..., 1) the median of the arms' variances, each over what it is below its expectation in the median.

    Args:
        variances: (..., A) unbiased.
        df: (A,) their degrees of freedom; arms of which they are 0 do not count. Nan where none counts.
    """
    variances, df = np.asarray(variances, dtype=float), np.asarray(df, dtype=float)
    is_known = df > 0
    if not is_known.any():
        return np.full((*variances.shape[:-1], 1), np.nan)
    known_df = df[is_known]
    median_of_one = 2 * special.gammaincinv(known_df / 2, 0.5) / known_df  # of a chi-square over its df
    return np.median(variances[..., is_known] / median_of_one, axis=-1, keepdims=True)


def judged_variances(variances: ArrayLike, df: ArrayLike) -> Variances:
    """Return the variances that differences are judged with.

    Six arms of three runs, five with a variance of 1 and one with 0.2: with a usual variance of 1 that one is
    given (2 * 1 + 2 * 0.2) / 4 = 0.6 with 4 degrees of freedom. With a variance of 5 it would keep the 5
    with its own 2 degrees of freedom.

    Args:
        variances: (..., A) unbiased; whatever of an arm with one run.
        df: (A,) their degrees of freedom, runs less one.
    """
    own, own_df = np.asarray(variances, dtype=float), np.asarray(df, dtype=float)
    everywhere = np.broadcast_to(own_df, own.shape)
    is_known = own_df > 0
    if is_known.sum() < FEWEST_ARMS:
        return Variances(own, everywhere)
    usual = usual_variance(own, own_df)
    moderated = (PRIOR_DF * usual + own_df * own) / (PRIOR_DF + own_df)
    is_large = is_known & (own_df + 1 >= FAR_FEWER * np.median(own_df[is_known] + 1))
    is_drawn = is_large & (own < moderated) & (_unlikeness(own[..., is_known], own_df[is_known]) < UNLIKE)
    return Variances(np.where(is_drawn, moderated, own), np.where(is_drawn, own_df + PRIOR_DF, everywhere))


def _unlikeness(variances: np.ndarray, df: np.ndarray) -> np.ndarray:
    """(..., 1) how far arms truly spread from what is usual, by the moments of log variances (Smyth 2004).

    The variance of log variances over arms is that of a log chi-square, trigamma(df / 2), and four times that
    of the logarithm of the true standard deviations.
    """
    expected = special.digamma(df / 2) - np.log(df / 2)
    logarithms = np.log(np.maximum(variances, np.finfo(float).tiny)) - expected
    excess = logarithms.var(axis=-1, ddof=1, keepdims=True) - special.polygamma(1, df / 2).mean()
    return np.sqrt(np.maximum(excess, 0.0) / 4)
