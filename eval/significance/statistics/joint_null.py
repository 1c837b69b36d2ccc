"""Draws of a whole study as if nothing differed, with everything that its comparisons share.

Comparisons share the runs of their baseline, seeds where these are paired, and runs of which several outcomes
are scores. What is drawn are whole runs of whole studies, so that all of it comes in by itself.

Shapes: A arms, S rows (runs of an arm; where seeds are paired those of a family stand side by side), O
outcomes, m comparisons, C cells, B draws. A cell has a mean and a variance of its own in Welch's formula: an
arm's scores of one outcome or, of pairs, a family's differences of one comparison.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg, special

ROUNDING = 1e-12
"""A variance below this share of the mean square is rounding of equal scores."""


class Cells(NamedTuple):
    """What is averaged, and how comparisons are made of it."""

    values: np.ndarray
    """(S, C), nan where a run lacks an outcome or a pair is not complete."""
    groups: np.ndarray
    """(C,) cells of one group come from the same runs: those of an arm or, of pairs, of a family."""
    weights: np.ndarray
    """(m, C) of every cell in every comparison."""
    correlation: np.ndarray
    """(C, C) within groups; cells of different groups are independent."""


class Draws(NamedTuple):
    """Welch's t in draws without any difference, nan where a draw has no spread; each (B, m)."""

    t: np.ndarray
    df: np.ndarray


def cells_of_arms(scores: np.ndarray, weights: np.ndarray, outcomes: np.ndarray) -> Cells:
    """Make cells of independent arms.

    Args:
        scores: (A, S, O), nan where an arm has no such run or a run no such outcome.
        weights: (m, A) of every arm in every comparison.
        outcomes: (m,) number of the outcome that each comparison is about.
    """
    num_arms, num_rows, num_outcomes = scores.shape
    is_about = np.eye(num_outcomes)[outcomes]
    return Cells(
        values=scores.transpose(1, 0, 2).reshape(num_rows, -1),
        groups=np.repeat(np.arange(num_arms), num_outcomes),
        weights=(weights[:, :, None] * is_about[:, None, :]).reshape(len(weights), -1),
        correlation=np.kron(np.eye(num_arms), correlation_of_outcomes(scores)),
    )


def cells_of_pairs(
    scores: np.ndarray, weights: np.ndarray, outcomes: np.ndarray, families: np.ndarray
) -> Cells:
    """Make cells of differences between runs of one family and seed.

    Two differences from one baseline correlate by its part in their variances. What all runs of a seed have
    in common is not in the differences, so it is taken off the scores before these parts are estimated.

    Args:
        scores: As of ``cells_of_arms``; a row is a seed.
        weights: As of ``cells_of_arms``.
        outcomes: As of ``cells_of_arms``.
        families: (A,) family of every arm.
    """
    own = _without_seeds(scores, families)
    spread = np.sqrt(_own_variances(own, families))[:, outcomes]
    between = correlation_of_outcomes(own)[np.ix_(outcomes, outcomes)]
    values, shares, blocks = [], [], []
    for family in np.unique(families):
        of_family = np.where(families == family, weights, 0.0)
        share = of_family.clip(0).sum(1)
        of_family = (of_family / np.where(share > 0, share, 1.0)[:, None]).T  # (A, m)
        # 0 x nan is nan: a run that has no part in a comparison must not make its pair incomplete.
        part = of_family[:, None] != 0
        terms = np.where(part, of_family[:, None] * scores[:, :, outcomes], 0.0)
        values.append(np.where(share > 0, terms.sum(0), np.nan))
        shares.append(np.diag(share))
        loads = (of_family * spread).T
        blocks.append(_normalised(loads @ loads.T) * between)
    return Cells(
        values=np.concatenate(values, axis=1),
        groups=np.repeat(np.arange(len(blocks)), len(weights)),
        weights=np.concatenate(shares, axis=1),
        correlation=linalg.block_diag(*blocks),
    )


def simulated(cells: Cells, draws: int, rng: np.random.Generator) -> Draws:
    """Draw normal runs with the spread and the correlation that were seen, and without any difference."""
    present = ~np.isnan(cells.values)
    spread = np.sqrt(_variances(cells.values.T[:, :, None])[:, 0])
    sums, squares = np.zeros((2, draws, len(cells.groups)))
    for group in np.unique(cells.groups):
        here = np.flatnonzero(cells.groups == group)
        root = spread[here, None] * _root(cells.correlation[np.ix_(here, here)])
        total, square = np.zeros((2, draws, len(here)))
        for row in present[:, here]:
            if row.any():
                drawn = rng.standard_normal((draws, len(here))) @ (root.T * row)
                total += drawn
                square += drawn**2
        sums[:, here], squares[:, here] = total, square
    return _studentized(present.sum(0) * 1.0, sums, squares, cells.weights)


def resampled(cells: Cells, draws: int, rng: np.random.Generator) -> Draws:
    """Draw runs of each group with replacement, every cell about its mean; all scores of a run together."""
    present = ~np.isnan(cells.values)
    centred = np.nan_to_num(cells.values - _means(cells.values))
    counts, sums, squares = np.zeros((3, draws, len(cells.groups)))
    for group in np.unique(cells.groups):
        here = np.flatnonzero(cells.groups == group)
        rows = np.flatnonzero(present[:, here].any(1))
        times = _times_drawn(len(rows), draws, rng)
        for moment, of_row in ((counts, present * 1.0), (sums, centred), (squares, centred**2)):
            moment[:, here] = times @ of_row[np.ix_(rows, here)]
    return _studentized(counts, sums, squares, cells.weights)


def p_of_t(draws: Draws) -> np.ndarray:
    """(B, m) two-sided p of Welch's t, every one with its own degrees of freedom."""
    return 2 * special.stdtr(draws.df, -np.abs(draws.t))


def p_of_ranks(draws: Draws) -> np.ndarray:
    """(B, m) two-sided p of each draw among those of its comparison: as many as lie as far out / (1 + B)."""
    nearness = np.where(np.isnan(draws.t), np.inf, -np.abs(draws.t))
    ranks = np.empty_like(nearness)
    for place, each in enumerate(nearness.T):  # how many lie as far out
        ranks[:, place] = np.searchsorted(np.sort(each), each, side="right")
    return np.where(np.isnan(draws.t), np.nan, ranks / (1 + len(ranks)))


def correlation_of_outcomes(scores: np.ndarray) -> np.ndarray:
    """Estimate how outcomes of one run correlate within arms, alike in all of them.

    Residuals are divided by their arm's standard deviation and pooled. The estimate is shrunk towards none by
    as much as its noise asks for (Schaefer and Strimmer 2005): few runs must not feign dependence, as a
    correction that believes in it would be too mild.

    Args:
        scores: (A, S, O), nan where missing; outcomes that no two runs of an arm share count as independent.

    Returns:
        (O, O)
    """
    centred = scores - _means(scores, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        standard = np.nan_to_num(centred / np.sqrt(_variances(scores))[:, None])
    present = (~np.isnan(scores)).astype(float)
    together = np.einsum("aso,asp->aop", present, present)
    df = np.maximum(together - 1, 0).sum(0)
    products = np.einsum("aso,asp->op", standard, standard)
    found = _normalised(products)
    others = ~np.eye(len(df), dtype=bool) & (df > 0)
    noise = ((1 - found**2) ** 2 / np.maximum(df, 1))[others].sum()
    signal = (found**2)[others].sum()
    share = 1.0 if signal == 0 else min(1.0, noise / signal)
    return np.where(others, (1 - share) * found, 0.0) + np.eye(len(df))


def _means(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Mean of what is not missing; nan of nothing."""
    with np.errstate(invalid="ignore"):
        return np.nansum(values, axis, keepdims=True) / (~np.isnan(values)).sum(axis, keepdims=True)


def _variances(scores: np.ndarray) -> np.ndarray:
    """Unbiased variances over rows of (A, S, O) scores, 0 where fewer than two are there."""
    squares = np.nansum((scores - _means(scores, 1)) ** 2, 1)
    return squares / np.maximum((~np.isnan(scores)).sum(1) - 1, 1)


def _without_seeds(scores: np.ndarray, families: np.ndarray) -> np.ndarray:
    """Take the mean over a family's arms off every row of (A, S, O) scores."""
    own = scores.copy()
    for family in np.unique(families):
        own[families == family] -= _means(scores[families == family])
    return own


def _own_variances(own: np.ndarray, families: np.ndarray) -> np.ndarray:
    """(A, O) variances of arms from what is left of them without their seeds (Grubbs 1948).

    Of two arms both get the same, as nothing tells whose the spread is.
    """
    found = _variances(own)
    for family in np.unique(families):
        here = families == family
        count = int(here.sum())
        if count > 2:
            of_means = found[here].sum(0) / (count * (count - 1))
            found[here] = np.maximum(found[here] - of_means, 0.0) * count / (count - 2)
    return found


def _normalised(covariance: np.ndarray) -> np.ndarray:
    spread = np.sqrt(np.diag(covariance))
    spread = np.where(spread > 0, spread, 1.0)
    return covariance / np.outer(spread, spread)


def _root(correlation: np.ndarray) -> np.ndarray:
    """A matrix whose product with its own transpose is this one, or the nearest that is a correlation."""
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(values.clip(0))
    return root / np.maximum(np.sqrt((root**2).sum(1, keepdims=True)), 1e-9)


def _times_drawn(num_rows: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(B, num_rows) how often each row is drawn, as many in all as there are rows."""
    drawn = rng.integers(num_rows, size=(draws, num_rows)) + np.arange(draws)[:, None] * num_rows
    return np.bincount(drawn.ravel(), minlength=draws * num_rows).reshape(draws, num_rows).astype(float)


def _studentized(counts: np.ndarray, sums: np.ndarray, squares: np.ndarray, weights: np.ndarray) -> Draws:
    """Welch's t of every comparison from the (B, C) moments of each cell about its true mean."""
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums / counts
        variances = (squares - sums * means) / (counts - 1)
        variances = np.where(variances > ROUNDING * squares / counts, variances, 0.0)
        errors = variances / counts
        is_unknown = ((counts < 2) * 1.0) @ (weights.T != 0) > 0
        estimate = np.nan_to_num(means) @ weights.T
        errors = np.nan_to_num(errors)
        variance = errors @ (weights**2).T
        df = variance**2 / (np.nan_to_num(errors**2 / (counts - 1)) @ (weights**4).T)
        t = np.where(is_unknown | (variance <= 0), np.nan, estimate / np.sqrt(variance))
    return Draws(t, df)
