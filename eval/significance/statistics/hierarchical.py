"""A hierarchical model of scores: variants, families, phenomena and runs, each pooled partially.

The score of run s of variant v in family f on part p is, in any unit,

    score = m[p, f] + a[p, v] + b[p, f, v] + g[p, f, s] + e[p, f, v, s]

    a ~ t(4) times tau_a          variants; the baseline is one of them
    b ~ t(4) times tau_b          variants by family; left out for a single family
    e ~ normal(0, sd[p, f, v]^2)  runs; each arm has a spread of its own
    sd^2 ~ inverse-gamma(4 / 2, 4 r[p, f]^2 / 2): the spread r of the family counts as four more runs
    m is flat; g is flat too, and there only where runs of one seed are paired
    tau_a, tau_b ~ half-t(3) of scale 2u (Gelman 2006); r ~ half-normal of scale 2u

u is the spread within arms, which says nothing of how arms differ. Parts share tau_a and tau_b. Effects are
of t's heavy tails, that is normal(0, tau^2 w) with 1 / w ~ gamma(4 / 2, 4 / 2), as one variant is often far
from the others: of a normal distribution, they would pull it in, and it would push them apart.

Gibbs' sampler has five exact blocks: tau_a and tau_b with m, a and b integrated out (slice sampling, Neal
2003); m, a and b together; w; r with sd integrated out; sd. Chains run side by side.

Shapes: C chains, P parts, F families, V variants, S runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

SCALE_DF = 3.0
"""Degrees of freedom of the half-t prior of the effects' scales."""
WIDTH = 2.0
"""Scale of the priors of standard deviations, in spreads within arms."""
TAIL_DF = 4.0
"""Degrees of freedom of the effects' t, and runs that a family's spread counts for in that of an arm."""
NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 100, 15, 30
# Logarithm of a standard deviation in prior scales; outside of these lies next to nothing.
_LOWEST, _HIGHEST = -10.0, 9.0
_STEP = 4.0


@dataclass(frozen=True)
class Prior:
    """Priors of standard deviations.

    Attributes:
        scale: u above, in the unit of the scores; larger than zero.
        effect_df: Degrees of freedom of a and b; the larger, the more normal they are.
        arm_df: Runs that r counts for; the larger, the more alike are the spreads of a family's arms.
    """

    scale: float
    effect_df: float = TAIL_DF
    arm_df: float = TAIL_DF

    @property
    def width(self) -> float:
        """2u."""
        return WIDTH * self.scale


class Draws(NamedTuple):
    """D draws of every chain from the posterior."""

    means: np.ndarray
    """(D, C, P, F, V) m + a + b: the expected score of an arm, also of one without runs."""
    effect_scales: np.ndarray
    """(D, C, 2) tau_a and tau_b; the latter is 0 for one family."""
    run_sds: np.ndarray
    """(D, C, P, F, V) sd."""


def within_scale(scores: np.ndarray, is_paired: bool = False) -> float | None:
    """Return the standard deviation within arms, pooled by degrees of freedom.

    Args:
        scores: (P, F, V, S), nan where there is no run.
        is_paired: Whether to leave out what runs at one place of S share: it is then that of differences
            between two variants, over all of them, divided by the root of 2.

    Returns:
        None where no arm has two runs.
    """
    if is_paired:
        first, second = np.triu_indices(scores.shape[2], 1)
        scores = (scores[:, :, first] - scores[:, :, second]) / math.sqrt(2)
    present = np.isfinite(scores)
    counts = present.sum(-1)
    means = np.where(present, scores, 0.0).sum(-1) / np.maximum(counts, 1)
    squares = np.where(present, scores - means[..., None], 0.0) ** 2
    df = int(np.maximum(counts - 1, 0).sum())
    return math.sqrt(squares.sum() / df) if df else None


def posterior_means(
    scores: np.ndarray, prior: Prior, rng: np.random.Generator, is_paired: bool = False
) -> np.ndarray:
    """Draw the expected scores of all arms from their posterior.

    Args:
        scores: (P, F, V, S), nan where there is no run; every part and family has one.
        prior: Of the standard deviations.
        rng: The only source of chance.
        is_paired: Whether runs at one place of S share an effect in their part and family.

    Returns:
        (D, P, F, V), one row a draw.
    """
    means = sample(
        scores[None], prior, rng, NUM_WARMUP, NUM_DRAWS, is_paired=is_paired, num_chains=NUM_CHAINS
    ).means
    return means.reshape(-1, *means.shape[2:])


def sample(
    scores: np.ndarray,
    prior: Prior,
    rng: np.random.Generator,
    num_warmup: int,
    num_draws: int,
    thinning: int = 1,
    is_paired: bool = False,
    num_chains: int | None = None,
) -> Draws:
    """Run chains side by side, each on its own scores.

    Args:
        scores: (C, P, F, V, S), nan where there is no run, in every chain alike; (1, P, F, V, S) where all
            chains have the same.
        prior: Of the standard deviations.
        rng: The only source of chance.
        num_warmup: Steps left out at the start.
        num_draws: Draws kept of every chain.
        thinning: Steps for each of them.
        is_paired: Whether runs at one place of S share an effect in their part and family.
        num_chains: C; None takes the length of ``scores``.
    """
    runs = _Runs.of_scores(scores, is_paired)
    num_effects = 2 if scores.shape[2] > 1 else 1
    shape = (num_chains or len(scores), *scores.shape[1:-1])
    log_scales = np.full((shape[0], 2), -np.inf)
    log_scales[:, :num_effects] = rng.normal(size=(shape[0], num_effects))
    widths = (np.ones((*shape[:2], shape[3])), np.ones(shape))
    log_spreads = rng.normal(size=shape[:3])
    variances = np.full(shape, prior.scale**2)
    own = runs.sums().in_chains(shape[0])
    means, kept = own.means, []
    for step in range(num_warmup + num_draws * thinning):
        if is_paired:
            own = runs.without_seeds(means, variances, rng).sums()
        arms = _Arms(own.means, own.counts, variances, *widths)
        for which in range(num_effects):
            log_scales = _draw_log_scales(arms, log_scales, which, prior, rng)
        scales = prior.width * np.exp(log_scales)
        m, a, b = _draw_effects(arms, scales, rng)
        means = m + a[:, :, None] + b
        widths = _draw_widths(a, scales[:, 0], prior, rng), _draw_widths(b, scales[:, 1], prior, rng)
        variances, log_spreads = _draw_variances(own.squares(means), own.counts, log_spreads, prior, rng)
        if step >= num_warmup and (step - num_warmup + 1) % thinning == 0:
            kept.append((means + runs.centres, scales, np.sqrt(variances)))
    return Draws(*map(np.stack, zip(*kept, strict=True)))


class _Runs(NamedTuple):
    """Scores about the mean of their part and family, which costs no digits; m takes up the shift."""

    scores: np.ndarray
    """(C, P, F, V, S), 0 without a run."""
    present: np.ndarray
    """(P, F, V, S) whether there is one."""
    centres: np.ndarray
    """(C, P, F, 1)."""

    @classmethod
    def of_scores(cls, scores: np.ndarray, is_paired: bool) -> _Runs:
        present = np.isfinite(scores[0])
        centres = np.nanmean(scores, axis=(-1, -2))[..., None]
        if is_paired:  # under a flat g, a run without a partner tells nothing
            present &= present.sum(-2, keepdims=True) > 1
        return cls(np.where(present, scores - centres[..., None], 0.0), present, centres)

    def sums(self) -> _Sums:
        """Return all that a step needs of them, which without pairs is the same in every step."""
        counts = self.present.sum(-1)
        means = self.scores.sum(-1) / np.maximum(counts, 1)
        about = np.where(self.present, self.scores - means[..., None], 0.0)
        return _Sums(counts, means, (about**2).sum(-1))

    def without_seeds(self, means: np.ndarray, variances: np.ndarray, rng: np.random.Generator) -> _Runs:
        """Draw g given all else and take it off."""
        weights = np.where(self.present, 1 / variances[..., None], 0.0)
        precision = weights.sum(-2, keepdims=True)
        precision = np.where(precision > 0, precision, 1.0)
        centres = (weights * (self.scores - means[..., None])).sum(-2, keepdims=True) / precision
        effects = centres + rng.normal(size=precision.shape) / np.sqrt(precision)
        return self._replace(scores=np.where(self.present, self.scores - effects, 0.0))


class _Sums(NamedTuple):
    """What the runs of each arm come to."""

    counts: np.ndarray
    """(P, F, V)."""
    means: np.ndarray
    """(C, P, F, V), 0 without runs."""
    spread: np.ndarray
    """(C, P, F, V) sums of squares about these means."""

    def in_chains(self, num_chains: int) -> _Sums:
        """Return the same of every chain."""
        shape = (num_chains, *self.means.shape[1:])
        return _Sums(self.counts, np.broadcast_to(self.means, shape), np.broadcast_to(self.spread, shape))

    def squares(self, means: np.ndarray) -> np.ndarray:
        """(C, P, F, V) sums of squares about other means."""
        return self.spread + self.counts * (self.means - means) ** 2


class _Arms(NamedTuple):
    """What the effects are inferred from."""

    means: np.ndarray
    """(C, P, F, V), 0 without runs."""
    counts: np.ndarray
    """(P, F, V)."""
    variances: np.ndarray
    """(C, P, F, V) of one run."""
    variant_widths: np.ndarray
    """(C, P, V) w of a."""
    family_widths: np.ndarray
    """(C, P, F, V) w of b."""

    def of(self, chains: np.ndarray) -> _Arms:
        """Return those of some chains only."""
        widths = self.variant_widths[chains], self.family_widths[chains]
        return _Arms(self.means[chains], self.counts, self.variances[chains], *widths)


class _FamilyMeans(NamedTuple):
    """The distribution of m given tau_a and tau_b, with a and b integrated out.

    Given m, the means of one variant's arms are m + a + noise of precision q, so that their precision matrix
    is diag(q) - q q' / k with k = 1 / (tau_a^2 w) + s, where s is the sum of q over families. Where variants
    lie far apart, nearly all of that cancels for what families share. So m is taken as m of the first family
    and what the others differ by, of which the first row of the matrix is q / (tau_a^2 w k), s for the first.
    """

    q: np.ndarray
    """(C, P, F, V), 0 without runs."""
    k: np.ndarray
    """(C, P, V)."""
    root: np.ndarray
    """(C, P, F, F) Cholesky's factor of the precision matrix."""
    right: np.ndarray
    """(C, P, F, 1) its inverse times precision times mean."""

    @classmethod
    def given(cls, arms: _Arms, scales: np.ndarray) -> _FamilyMeans:
        of_a, of_b = (scales[:, i, None, None] ** 2 for i in range(2))
        q = arms.counts / (arms.counts * of_b[..., None] * arms.family_widths + arms.variances)
        of_a = 1 / (of_a * arms.variant_widths)
        k = of_a + q.sum(2)
        share, weighted = of_a / k, q * arms.means
        precision = -np.einsum("cpfv,cpgv->cpfg", q / k[:, :, None], q)
        places = np.arange(q.shape[2])
        precision[..., places, places] += q.sum(-1)
        precision[..., 0, :] = precision[..., :, 0] = (share[:, :, None] * q).sum(-1)
        precision[..., 0, 0] = (share * q.sum(2)).sum(-1)
        right = (q * (arms.means - (weighted.sum(2) / k)[:, :, None])).sum(-1)
        right[..., 0] = (share * weighted.sum(2)).sum(-1)
        root = np.linalg.cholesky(precision)
        return cls(q, k, root, np.linalg.solve(root, right[..., None]))

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """(C, P, F, 1) m."""
        noise = rng.normal(size=self.right.shape)
        m = np.linalg.solve(np.swapaxes(self.root, -1, -2), self.right + noise)
        m[..., 1:, :] += m[..., :1, :]
        return m


def _slice_step(
    log_density: Callable[[np.ndarray, np.ndarray], np.ndarray], now: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Make one step of N chains that leaves their densities as they are (Neal 2003, shrinkage).

    Args:
        log_density: Of (K,) chains, each at its own of (K,) values.
        now: (N,) where they are.
        rng: Chance.
    """
    open_, found = np.arange(len(now)), now.copy()
    heights = log_density(open_, now) + np.log(rng.random(len(now)))
    start = now - _STEP * rng.random(len(now))
    low, high = np.maximum(start, _LOWEST), np.minimum(start + _STEP, _HIGHEST)
    while len(open_):
        tried = low[open_] + (high - low)[open_] * rng.random(len(open_))
        found[open_] = tried
        is_outside = log_density(open_, tried) < heights[open_]
        is_below = tried < now[open_]
        low[open_[is_below]], high[open_[~is_below]] = tried[is_below], tried[~is_below]
        open_ = open_[is_outside]
    return found


def _draw_log_scales(
    arms: _Arms, log_scales: np.ndarray, which: int, prior: Prior, rng: np.random.Generator
) -> np.ndarray:
    """Draw tau_a (which = 0) or tau_b (1) given the other, with m, a and b integrated out.

    ``log_scales`` (C, 2) are their logarithms in prior scales.
    """

    def log_density(chains: np.ndarray, values: np.ndarray) -> np.ndarray:
        tried = log_scales[chains]
        tried[:, which] = values
        half_t = -(SCALE_DF + 1) / 2 * np.log1p(np.exp(2 * values) / SCALE_DF)
        return half_t + values + _log_likelihood(arms.of(chains), prior.width * np.exp(tried))

    drawn = log_scales.copy()
    drawn[:, which] = _slice_step(log_density, log_scales[:, which], rng)
    return drawn


def _log_likelihood(arms: _Arms, scales: np.ndarray) -> np.ndarray:
    """(C,) logarithm of the density of the arms' means given (C, 2) tau_a and tau_b, up to a constant."""
    family = _FamilyMeans.given(arms, scales)
    weighted = family.q * arms.means
    squares = (weighted * arms.means).sum((1, 2, 3)) - (weighted.sum(2) ** 2 / family.k).sum((1, 2))
    logs = np.log(np.where(family.q > 0, family.q, 1.0)).sum((1, 2, 3))
    logs -= (np.log(family.k) + 2 * np.log(scales[:, 0, None, None])).sum((1, 2))
    squares -= (family.right**2).sum((1, 2, 3))
    logs -= 2 * np.log(np.diagonal(family.root, axis1=-2, axis2=-1)).sum((1, 2))
    return (logs - squares) / 2


def _draw_effects(
    arms: _Arms, scales: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw m (C, P, F, 1), a (C, P, V) and b (C, P, F, V) together, given tau_a and tau_b."""
    family = _FamilyMeans.given(arms, scales)
    m = family.draw(rng)
    a = (family.q * (arms.means - m)).sum(2) / family.k + rng.normal(size=family.k.shape) / np.sqrt(family.k)
    variance = scales[:, 1, None, None, None] ** 2 * arms.family_widths
    noise_share = arms.variances / (arms.counts * variance + arms.variances)
    b = (1 - noise_share) * (arms.means - m - a[:, :, None])
    return m, a, b + np.sqrt(variance * noise_share) * rng.normal(size=b.shape)


def _draw_widths(
    effects: np.ndarray, scales: np.ndarray, prior: Prior, rng: np.random.Generator
) -> np.ndarray:
    """Draw w given (C, ...) effects and (C,) their tau; where there is no such effect, it is of no use."""
    scales = np.where(scales > 0, scales, 1.0).reshape(-1, *(1,) * (effects.ndim - 1))
    rates = (prior.effect_df + (effects / scales) ** 2) / 2
    return rates / rng.gamma((prior.effect_df + 1) / 2, size=effects.shape)


def _draw_variances(
    squares: np.ndarray, counts: np.ndarray, log_spreads: np.ndarray, prior: Prior, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw r with sd integrated out, then sd given r.

    Args:
        squares: (C, P, F, V) sums of squares about the arms' means.
        counts: (P, F, V).
        log_spreads: (C, P, F) logarithms of the old r in prior scales.
        prior: Gives that scale, and k.
        rng: Chance.

    Returns:
        (C, P, F, V) variances of one run, and the new ``log_spreads``.
    """
    df, unit, num_arms = prior.arm_df, prior.width**2, counts.shape[-1]
    sums = squares.reshape(-1, num_arms)
    numbers = np.broadcast_to(counts, squares.shape).reshape(-1, num_arms)

    def log_density(places: np.ndarray, values: np.ndarray) -> np.ndarray:
        half_normal = -np.exp(2 * values) / 2
        runs, ratios = numbers[places], sums[places] / (df * unit * np.exp(2 * values[:, None]))
        of_arms = -(df + runs) / 2 * np.log1p(ratios) - runs * values[:, None]
        return half_normal + values + of_arms.sum(-1)

    log_spreads = _slice_step(log_density, log_spreads.ravel(), rng).reshape(log_spreads.shape)
    expected = df * unit * np.exp(2 * log_spreads)[..., None]
    return (expected + squares) / 2 / rng.gamma((df + counts) / 2, size=squares.shape), log_spreads
