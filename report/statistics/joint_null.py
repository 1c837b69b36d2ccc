"""Draws of a whole study as if nothing differed, with everything that its comparisons share.

Comparisons share the runs of their baseline, seeds where these are paired, and runs of which several metrics
are scores. What is drawn are whole runs of whole studies, and each study is judged by the rule that judges
the real one, so that all of it comes in by itself.

How far arms truly spread is not known, so studies of several kinds are drawn, and the least favourable kind
counts: those whose arms spread as seen; those whose arms spread about what is usual among them, in two of
three within a factor of 1.5; those whose baseline spreads thrice as far; and, where few arms have unlike
numbers of runs, those whose small arms do.

Shapes: A arms, S rows (runs of an arm; where seeds are paired those of a family stand side by side), O
metrics, m comparisons, C cells, B draws. A cell has a mean and a variance of its own in Welch's formula: an
arm's scores of one metric or, of pairs, a family's differences of one comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from report.statistics.welch import FAR_FEWER, FEWEST_ARMS, judged_variances, usual_variance

SPREAD_OF_SPREADS = 0.4
"""Standard deviation of the logarithm of arms' standard deviations about what is usual."""
FEWEST_DF = 2
"""Below, a correlation is always found, and always whole."""
WIDE = 3.0
"""How many times as far a baseline, or small arms, may spread."""


@dataclass(frozen=True, kw_only=True)
class Cells:
    """What is averaged, and how comparisons are made of it."""

    values: np.ndarray
    """(S, C), nan where a run lacks a metric or a pair is not complete."""
    groups: np.ndarray
    """(C,) cells of one group come from the same runs: those of an arm or, of pairs, of a family."""
    laws: np.ndarray
    """(C,) cells of one law are arms of one family and metric: their variances tell what is usual. Of pairs
    each cell is a law of its own."""
    weights: np.ndarray
    """(m, C) of every cell in every comparison."""
    correlation: np.ndarray
    """(C, C) within groups; cells of different groups are independent."""
    choices: np.ndarray
    """(2, C) what the choice of a rate adds to the variance of a cell's mean, and its degrees of freedom."""
    tuned: np.ndarray
    """(C,) cells of one number have one regret: those of a variant, whose families are tuned alike."""

    @property
    def counts(self) -> np.ndarray:
        """(C,) runs or pairs."""
        return (~np.isnan(self.values)).sum(0)

    def of_each_law(self) -> Iterator[np.ndarray]:
        """Yield the places of the cells of each law."""
        for law in np.unique(self.laws):
            yield np.flatnonzero(self.laws == law)


class Draws(NamedTuple):
    """Welch's t in draws without any difference, nan where a draw has no spread; each (B, m)."""

    t: np.ndarray
    df: np.ndarray


def cells_of_arms(
    scores: np.ndarray,
    weights: np.ndarray,
    metrics: np.ndarray,
    families: np.ndarray,
    choices: np.ndarray | None = None,
    variants: np.ndarray | None = None,
) -> Cells:
    """Make cells of independent arms.

    Args:
        scores: (A, S, O), nan where an arm has no such run or a run no such metric.
        weights: (m, A) of every arm in every comparison.
        metrics: (m,) number of the metric that each comparison is about.
        families: (A,) family of every arm.
        choices: (2, A, O) what the choice of a rate adds to the variance of a mean, and its degrees of
            freedom; None where nothing was tuned.
        variants: (A,) number of the variant of every arm, where something was tuned.
    """
    num_arms, num_rows, num_metrics = scores.shape
    is_about = np.eye(num_metrics)[metrics]
    family = np.unique(families, return_inverse=True)[1]
    none = np.stack([np.zeros((num_arms, num_metrics)), np.full((num_arms, num_metrics), np.inf)])
    return Cells(
        values=scores.transpose(1, 0, 2).reshape(num_rows, -1),
        groups=np.repeat(np.arange(num_arms), num_metrics),
        laws=(family[:, None] * num_metrics + np.arange(num_metrics)).ravel(),
        weights=(weights[:, :, None] * is_about[:, None, :]).reshape(len(weights), -1),
        correlation=np.kron(np.eye(num_arms), correlation_of_metrics(scores)),
        choices=(none if choices is None else choices).reshape(2, -1),
        tuned=np.repeat(np.arange(num_arms) if variants is None else variants, num_metrics),
    )


def cells_of_pairs(
    scores: np.ndarray,
    weights: np.ndarray,
    metrics: np.ndarray,
    families: np.ndarray,
    choices: np.ndarray | None = None,
) -> Cells:
    """Make cells of differences between runs of one family and seed.

    Two differences from one baseline correlate by its part in their variances. What all runs of a seed have
    in common is not in the differences, so it is taken off the scores before these parts are estimated.

    Args:
        scores: As of ``cells_of_arms``; a row is a seed.
        weights: As of ``cells_of_arms``.
        metrics: As of ``cells_of_arms``.
        families: (A,) family of every arm.
        choices: (2, F, m) what the choices of rates add to the variance of each difference within each
            family, in the order of their names, and its degrees of freedom; None where nothing was tuned.
    """
    residuals = _without_seeds(scores, families)
    spread = np.sqrt(_arm_variances(residuals, families))[:, metrics]
    between = correlation_of_metrics(_without_mirrors(residuals, families))[np.ix_(metrics, metrics)]
    values, shares, blocks = [], [], []
    for family in np.unique(families):
        of_family = np.where(families == family, weights, 0.0)
        share = of_family.clip(0).sum(1)
        of_family = (of_family / np.where(share > 0, share, 1.0)[:, None]).T  # (A, m)
        # 0 x nan is nan: a run that has no part in a comparison must not make its pair incomplete.
        part = of_family[:, None] != 0
        terms = np.where(part, of_family[:, None] * scores[:, :, metrics], 0.0)
        values.append(np.where(share > 0, terms.sum(0), np.nan))
        shares.append(np.diag(share))
        loads = (of_family * spread).T
        blocks.append(_normalised(loads @ loads.T) * between)
    num_cells = len(blocks) * len(weights)
    groups = np.repeat(np.arange(len(blocks)), len(weights))
    none = np.stack([np.zeros(num_cells), np.full(num_cells, np.inf)])
    return Cells(
        values=np.concatenate(values, axis=1),
        groups=groups,
        laws=np.arange(num_cells),
        weights=np.concatenate(shares, axis=1),
        correlation=np.where(groups[:, None] == groups, np.tile(np.concatenate(blocks), len(blocks)), 0.0),
        choices=none if choices is None else choices.reshape(2, -1),
        tuned=np.tile(np.arange(len(weights)), len(blocks)),
    )


def simulated(cells: Cells, draws: int, rng: np.random.Generator) -> list[Draws]:
    """Draw normal runs without any difference, with the correlation that was seen: a kind of study each.

    Args:
        cells: What is averaged.
        draws: Studies of each kind.
        rng: Where random numbers come from.
    """
    sums, squares = _unit_runs(cells, draws, rng)
    # One regret for all families of a variant, as they are tuned alike: of independent ones half would cancel
    # in the average of four families, and the correction would be too mild.
    regrets = rng.standard_normal((draws, cells.tuned.max(initial=0) + 1))[:, cells.tuned]
    choice, choice_df = cells.choices
    is_tuned = choice > 0
    added = np.zeros_like(sums)
    finite_df = np.where(np.isfinite(choice_df), choice_df, 1e9)[is_tuned]
    added[:, is_tuned] = choice[is_tuned] * rng.chisquare(finite_df, (draws, is_tuned.sum())) / finite_df
    kinds = []
    # The same unit runs serve every kind of study: a cell that spreads s times as far has s times the sum.
    for spread in _spreads(cells, draws, rng):
        moved = sums * spread + cells.counts * np.sqrt(choice) * regrets
        kinds.append(_studentized(cells, moved, squares * spread**2, added))
    return kinds


def _unit_runs(cells: Cells, draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(B, C) sums of runs with a variance of 1, and their squares about their mean."""
    present = ~np.isnan(cells.values)
    sums, squares = np.zeros((2, draws, len(cells.groups)))
    for group in np.unique(cells.groups):
        here = np.flatnonzero(cells.groups == group)
        root = _root(cells.correlation[np.ix_(here, here)])
        for row in present[:, here]:
            if row.any():
                scores = rng.standard_normal((draws, len(here))) @ (root.T * row)
                sums[:, here] += scores
                squares[:, here] += scores**2
    # Squares about the mean, as of 1, 2 and 6 with the sum 9: 1 + 4 + 36 - 81 / 3 = 14 = 4 + 1 + 9.
    return sums, squares - sums**2 / np.maximum(cells.counts, 1)


def _spreads(cells: Cells, draws: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield the standard deviations of cells in studies of each kind: (C,) or (B, C)."""
    variances, df = _variances(cells.values.T[:, :, None])[:, 0], cells.counts - 1
    judged, usual = variances.copy(), variances.copy()
    has_few_arms = np.zeros(len(variances), dtype=bool)
    for law in cells.of_each_law():
        judged[law] = judged_variances(variances[law], df[law]).variance
        usual[law] = usual_variance(variances[law], df[law])
        has_few_arms[law] = (df[law] > 0).sum() < FEWEST_ARMS
    yield np.sqrt(judged)
    if len(np.unique(cells.laws)) == len(cells.laws):  # of pairs, no two of which have one law
        return
    usual = np.sqrt(np.nan_to_num(usual))
    yield usual * np.exp(SPREAD_OF_SPREADS * rng.standard_normal((draws, len(usual))))
    is_shared = (cells.weights != 0).sum(0) > 1
    if is_shared.any():
        yield usual * np.where(is_shared, WIDE, 1.0)
    is_small = has_few_arms & (cells.counts < FAR_FEWER * cells.counts.max())
    if is_small.any():
        yield usual * np.where(is_small, WIDE, 1.0)


def p_of_t(draws: Draws) -> np.ndarray:
    """(B, m) two-sided p of Welch's t, every one with its own degrees of freedom."""
    return 2 * special.stdtr(draws.df, -np.abs(draws.t))


def correlation_of_metrics(scores: np.ndarray) -> np.ndarray:
    """Estimate how metrics of one run correlate within arms, alike in all of them.

    Residuals are divided by their arm's standard deviation and pooled. The estimate is shrunk towards none by
    as much as its noise asks for (Schaefer and Strimmer 2005): few runs must not feign dependence, as a
    correction that believes in it would be too mild.

    Args:
        scores: (A, S, O), nan where missing; metrics that hardly any runs share count as independent.

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
    correlation = _normalised(products)
    others = ~np.eye(len(df), dtype=bool) & (df >= FEWEST_DF)
    noise = ((1 - correlation**2) ** 2 / np.maximum(df, 1))[others].sum()
    signal = (correlation**2)[others].sum()
    # Two metrics, 6 runs, r = 0.5: noise (1 - 0.25)^2 / 5 = 0.11 against a signal of 0.25, so that r becomes
    # (1 - 0.45) * 0.5 = 0.27. With 60 runs it stays at 0.48.
    share = 1.0 if signal == 0 else min(1.0, noise / signal)
    return np.where(others, (1 - share) * correlation, 0.0) + np.eye(len(df))


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
    residuals = scores.copy()
    for family in np.unique(families):
        residuals[families == family] -= _means(scores[families == family])
    return residuals


def _without_mirrors(residuals: np.ndarray, families: np.ndarray) -> np.ndarray:
    """Leave out one of the two arms of a family: without their seeds each says what the other says."""
    _, first, counts = np.unique(families, return_index=True, return_counts=True)
    return np.delete(residuals, first[counts == 2], axis=0)


def _arm_variances(residuals: np.ndarray, families: np.ndarray) -> np.ndarray:
    """(A, O) variances of arms from what is left of them without their seeds (Grubbs 1948).

    Of two arms both get the same, as nothing tells whose the spread is.
    """
    variances = _variances(residuals)
    for family in np.unique(families):
        here = families == family
        count = int(here.sum())
        if count > 2:
            # Without its seed's mean, an arm keeps (1 - 2 / n) of its own variance and gets 1 / n^2 of all.
            of_means = variances[here].sum(0) / (count * (count - 1))
            variances[here] = np.maximum(variances[here] - of_means, 0.0) * count / (count - 2)
    return variances


def _normalised(covariance: np.ndarray) -> np.ndarray:
    spread = np.sqrt(np.diag(covariance))
    spread = np.where(spread > 0, spread, 1.0)
    return covariance / np.outer(spread, spread)


def _root(correlation: np.ndarray) -> np.ndarray:
    """A matrix whose product with its own transpose is this one, or the nearest that is a correlation."""
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(values.clip(0))
    return root / np.maximum(np.sqrt((root**2).sum(1, keepdims=True)), 1e-9)


def _studentized(cells: Cells, sums: np.ndarray, about_mean: np.ndarray, added: np.ndarray) -> Draws:
    """Judge every comparison of every study.

    Args:
        cells: What is averaged.
        sums: (B, C) of the deviations of a cell's runs from its true mean.
        about_mean: (B, C) sums of squares about its mean.
        added: (B, C) what the choice of a rate adds to the variance of its mean.
    """
    weights, counts = cells.weights, cells.counts * 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.repeat((counts - 1)[None], len(sums), axis=0)
        variances = about_mean / df
        for law in cells.of_each_law():
            variances[:, law], df[:, law] = judged_variances(variances[:, law], counts[law] - 1)
        errors = np.nan_to_num(variances / counts)
        is_unknown = (np.broadcast_to(counts < 2, sums.shape) * 1.0) @ (weights.T != 0) > 0
        estimate = np.nan_to_num(sums / counts) @ weights.T
        denominator = np.nan_to_num(errors**2 / df) @ (weights**4).T
        variance = errors @ (weights**2).T
        if added.any():
            for side in (weights.clip(0), (-weights).clip(0)):  # as ``welch.sum_of_regrets`` has it
                regrets = (np.sqrt(added) @ side.T) ** 2
                variance = variance + regrets
                denominator = denominator + regrets * ((added / cells.choices[1]) @ (side**2).T)
        t = np.where(is_unknown | (variance <= 0), np.nan, estimate / np.sqrt(variance))
        return Draws(t, variance**2 / denominator)
