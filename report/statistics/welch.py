"""Weighted sums of arm means, each arm with its own variance (Welch 1947, Satterthwaite 1946).

An arm's mean may lie above the truth by what the choice of its rate missed, of which no more is known than a
mean square. Such regrets are not drawn about zero. All are positive: within one side of a contrast they add
up, and between the sides they cancel at best. So the square of their sum on each side is added to the
variance of a contrast, not the sum of their squares. Three arms on a side that each miss by 0.02 miss by 0.02
in the mean, not by 0.02 / sqrt(3).

**Variances** are those that differences are judged with (``judged_variances``). Three or five runs tell
little of a variance. So an arm that spreads less than its own runs and what is usual among the arms together
suggest is given the moderated variance (Smyth 2004), with its degrees of freedom. An arm that spreads more
keeps its own variance and its own degrees of freedom: what is usual tells nothing of an arm that is not. An
arm of far fewer runs than the others keeps its own as well, as a contrast with it rests on its variance
alone. Where few arms tell what is usual, or arms differ so much that nothing is, all keep their own, which is
Welch's test. The rule was chosen by simulation of false differences (docs/error-rates.md), never by looking
at a verdict.

**Equivalence** is two one-sided tests: whether a difference is smaller than a margin (Schuirmann 1987). Where
a part of the standard error is a shift, as what the choice of a learning rate may have missed, each side is
tested at half the level. A shift b whose square is added to the variance leaves a two-sided test at its
level, but not a one-sided one: P(Z + b > z sqrt(1 + b^2)) is up to 9.6% for the z of 5%, and at most 4.6% for
that of 2.5%.

Shapes: C arms, one a family and variant, A arms of one family and metric; any leading dimensions are studies
of their own.
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
    # Two arms of five runs with variances 1 and 4: terms of 0.2 and 0.8, a variance of 1, and
    # 1^2 / (0.2^2 / 4 + 0.8^2 / 4) = 5.9 degrees of freedom, where equal variances would give 8.
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


def inequality_p(estimates: ArrayLike, standard_errors: ArrayLike, df: ArrayLike) -> float:
    """Return p of Welch's (1951) test that estimates of one thing, as by families, differ by chance alone.

    Args:
        estimates: (F,) independent of each other, two or more.
        standard_errors: (F,) of them, above zero.
        df: (F,) their degrees of freedom.
    """
    estimates, standard_errors, df = (np.asarray(x, dtype=float) for x in (estimates, standard_errors, df))
    weights, others = standard_errors**-2.0, len(estimates) - 1
    shares = weights / weights.sum()
    # Of two estimates this is Welch's t-test of their difference: f = t^2, and squares = 1 / df.
    squares = ((1 - shares) ** 2 / df).sum()
    spread = (weights * (estimates - shares @ estimates) ** 2).sum() / others
    f = spread / (1 + 2 * (others - 1) / (others * (others + 2)) * squares)
    return float(special.fdtrc(others, others * (others + 2) / (3 * squares), f))


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
    # Weights 1/2, 1/2 and -1, each arm's root 0.02: the sides add (0.01 + 0.01)^2 and 0.02^2, 0.0008 in all.
    for side in (weights > 0, weights < 0):
        of_side = np.where(side, weights**2 * squares, 0.0)
        total = np.sqrt(of_side).sum(-1) ** 2
        variance = variance + total
        denominator = denominator + total * (of_side / df).sum(-1)
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
    variances, df = np.asarray(variances, dtype=float), np.asarray(df, dtype=float)
    everywhere = np.broadcast_to(df, variances.shape)
    is_known = df > 0
    if is_known.sum() < FEWEST_ARMS:
        return Variances(variances, everywhere)
    moderated = (PRIOR_DF * usual_variance(variances, df) + df * variances) / (PRIOR_DF + df)
    is_large = is_known & (df + 1 >= FAR_FEWER * np.median(df[is_known] + 1))
    is_alike = _unlikeness(variances[..., is_known], df[is_known]) < UNLIKE
    is_moderated = is_large & (variances < moderated) & is_alike
    return Variances(
        np.where(is_moderated, moderated, variances), np.where(is_moderated, df + PRIOR_DF, everywhere)
    )


def _unlikeness(variances: np.ndarray, df: np.ndarray) -> np.ndarray:
    """(..., 1) how far arms truly spread from what is usual, by the moments of log variances (Smyth 2004).

    The variance of log variances over arms is that of a log chi-square, trigamma(df / 2), and four times that
    of the logarithm of the true standard deviations.
    """
    expected = special.digamma(df / 2) - np.log(df / 2)
    logarithms = np.log(np.maximum(variances, np.finfo(float).tiny)) - expected
    excess = logarithms.var(axis=-1, ddof=1, keepdims=True) - special.polygamma(1, df / 2).mean()
    return np.sqrt(np.maximum(excess, 0.0) / 4)


def equivalence_p(
    estimate: ArrayLike, standard_error: ArrayLike, df: ArrayLike, margin: float, regret: ArrayLike = 0.0
) -> np.ndarray:
    """Return the larger p of the tests that the difference is above -margin and below +margin.

    Args:
        estimate: (...) differences.
        standard_error: (...) of them, above zero.
        df: (...) degrees of freedom of the standard errors.
        margin: The largest difference that still counts as none, in the unit of the estimate.
        regret: (...) root of the part of the squared standard errors that is a shift.
    """
    p = special.stdtr(df, -(margin - np.abs(estimate)) / np.asarray(standard_error))
    return np.where(np.asarray(regret) > 0, np.minimum(1.0, 2 * p), p)


def one_sided_level(level: float, regret: float) -> float:
    """Return the level at which each side is tested."""
    return level / 2 if regret > 0 else level


def smallest_margin(estimate: float, standard_error: float, df: float, level: float) -> float:
    """Return the smallest margin at which both tests pass at a level: where the 1 - 2 level interval ends."""
    return float(abs(estimate) + special.stdtrit(df, 1 - level) * standard_error)


def equivalence_power(standard_error: float, df: float, margin: float, level: float) -> float:
    """Return how often both tests pass where there is no difference at all.

    By the noncentral t distribution, which leaves out that both tests share one standard error: close above
    one half, where it matters, and zero where it would be negative.
    """
    critical = float(special.stdtrit(df, 1 - level))
    return max(0.0, 1 - 2 * noncentral_t(critical, df, margin / standard_error))


def noncentral_t(x: float, df: float, noncentrality: float) -> float:
    """Return the distribution function of a noncentral t."""
    # It underflows to nan far out, where the tail is zero.
    return float(np.nan_to_num(special.nctdtr(df, noncentrality, x)))
