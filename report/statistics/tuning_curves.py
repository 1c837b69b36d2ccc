"""What a tuning on a grid of rates knows: the choice, the curve about it, and what the choice may miss.

Shapes: any leading dimensions (studies), V variants of one setting, R rates in rising order, T tuning seeds.
Rates stand as their natural logarithms, losses in any unit, nan where a run diverged.

**The choice** is the rate nearest to the lowest point of a curve through the losses (``chosen_places``). The
lowest mean of a few seeds is often the luckiest: of seven rates that lie close together it misses the best
one by 1.6 times as much (docs/error-rates.md); of a curve with a kink or a step it misses it by less.

**The curve** of a variant is a quadratic in the logarithm of the rate with a cubic term of which little is
believed (``BEND``), fitted by weighted least squares to the mean losses of the chosen rate and its nearest
neighbours, five in all (``fit_curves``). What a mean weighs follows from its error, which has two parts. The
noise over seeds may grow with the rate: the logarithm of its standard deviation is linear in the place of
the rate, with a slope that is pooled over variants. And a loss is trusted to within ``MISFIT`` of its height
above the chosen one. A collapsed rate, ``COLLAPSED`` times as high as the second lowest, is left out. So
rates that nobody would choose set neither the curve nor its noise.

**The noise** at the choice is each variant's own, moderated: few runs tell little of it, so it is drawn to
what is usual among the variants, as are the variances of genes in an experiment of few samples (Smyth 2004).
One that is pooled over all would be ruled by a single unstable variant. It is larger where the curve does
not fit. What the runs of a seed share cancels in differences of rates, as far as their correlation is sure.

**The regret** of a choice is the loss at the chosen rate minus the lowest of the curve. It shifts what the
main runs find, which can be no better than their rate. Its expected square is added to the variance of an
arm's mean (``squared_regret``): over the posterior of the curve, a bivariate t, integrated by a fixed rule.
Nothing is drawn, so no digit depends on a random number. A shift b that is added so, as b squared, keeps a
two-sided test at its level whatever b is: |Z + b| > z sqrt(1 + b^2) has at most the chance of |Z| > z for
the levels in use. Regrets of several arms add up within a side of a contrast (``welch.sum_of_regrets``).

**Fewer rates**: through three goes the parabola, whose fit nothing tests. Of two, and of values without an
order, nothing is known between (``squared_regret_of_few``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from report.statistics.welch import PRIOR_DF, sum_of_regrets, usual_variance

WINDOW = 5
"""Rates that the curve goes through."""
FEWEST = 3
"""Without so many there is no curve."""
MISFIT = 0.2
"""How far a loss may lie from the curve, as a share of its height above the chosen one."""
BEND = 0.3
"""Standard deviation of the cubic term beforehand, as a share of the quadratic one."""
COLLAPSED, SURE = 5.0, 3.0
"""How many times as high as the second lowest a loss is left out; standard errors beside it."""
NO_WORSE = 1.0
"""Standard errors of a difference by which the mean at a chosen rate may lie above the lowest mean."""
LEAST_GROWTH, MOST_GROWTH = -0.2, 1.2
"""Of the logarithm of the standard deviation, from one rate to the next."""
MOST_CORRELATION = 0.9
"""Of the losses of a seed at two rates."""
DOWNWARD = 0.1
"""How likely a curve is beforehand that opens downwards, beside one that opens upwards."""
WRONG_FACTOR = 3.0
"""How wrong a rate is whose cost is told."""
ANGLES, RADII = 64, 48
"""Of the rule over curves: within 1% of the expectation's root."""
NEGLIGIBLE = 1e-10
LEAST_ERROR = 1e-6


class Noise(NamedTuple):
    """Variance of a single run over seeds, and its degrees of freedom."""

    variance: float
    df: float


class Selection(NamedTuple):
    """What the choice of a rate adds to the variance of an arm's mean, and its degrees of freedom."""

    variance: float
    df: float


NO_CHOICE = Selection(0.0, math.inf)


def combined(choices: Sequence[Selection], weights: Sequence[float]) -> Selection:
    """Return what choices add to the variance of a weighted sum of arms (Satterthwaite 1946)."""
    variances, df = np.array(choices).T
    total, squares = sum_of_regrets(variances, df, weights)
    return Selection(float(total), float(total**2 / squares) if squares else math.inf)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Loss against the rate for one variant."""

    optimum: float
    """The rate at which the loss is lowest."""
    loss: float
    """There."""
    lower: float | None
    """What a rate of a third of the optimum costs; None where the grid does not reach so far."""
    higher: float | None
    """The same of three times the optimum."""


class Curves(NamedTuple):
    """Curves a t^2 + b t + c through mean losses, with t the logarithm of the rate over the chosen one.

    The cubic term of the fit is in the errors of a and b, and not in the curve.
    """

    places: np.ndarray
    """(..., V, R) t of each rate."""
    means: np.ndarray
    """(..., V, R) losses."""
    errors: np.ndarray
    """(..., V, R) their standard errors."""
    fit: np.ndarray
    """(..., V, 3, R) what each mean carries into a, b and c."""
    covariance: np.ndarray
    """(..., V, 2, 2) of a and b."""
    low: np.ndarray
    """(..., V) t to which the curve is followed, half a spacing beyond its window; nan without a curve."""
    high: np.ndarray
    df: np.ndarray
    """(..., V) degrees of freedom of the errors."""

    def of(self, variant: int) -> Curves:
        """Return the curve of one variant of a single study, without the dimension V."""
        return Curves(*(x[variant] for x in self))

    @property
    def coefficients(self) -> np.ndarray:
        """(..., V, 3) a, b and c."""
        return (self.fit * _or_zero(self.means)[..., None, :]).sum(-1)


def moderated_noise(variances: ArrayLike, df: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Draw each variant's variance over seeds to what is usual among the variants.

    What is usual is the median over variants, each variance divided by what it is below its expectation in
    the median. It counts for ``PRIOR_DF`` degrees of freedom. So a variance of 4 among many of 1, each of
    two tuning runs and five main runs, which have 5 degrees of freedom, becomes (5 * 4 + 2 * 1) / 7 with 7.

    Args:
        variances: (..., V) unbiased, each of the runs at a variant's best rate; whatever where df is zero.
        df: (V,) their degrees of freedom, or one number for all.

    Returns:
        Variances and degrees of freedom, (..., V); variances are nan where no variant has any.
    """
    df = np.broadcast_to(np.asarray(df, dtype=float), np.shape(variances)[-1:])
    of_runs = np.where(df > 0, variances, 0.0)
    moderated = (PRIOR_DF * usual_variance(of_runs, df) + df * of_runs) / (PRIOR_DF + df)
    return moderated, np.broadcast_to(PRIOR_DF + df, moderated.shape)


def own_noise(groups: Sequence[ArrayLike]) -> Noise:
    """Pool the variance within groups of runs that all are at one rate; of no two runs, with no df.

    Args:
        groups: Losses, such as those of tuning runs and of main runs, which differ in what they are
            judged on.
    """
    repeated = [np.asarray(x, dtype=float) for x in groups if len(np.asarray(x)) > 1]
    df = sum(len(x) - 1 for x in repeated)
    squares = sum(float(((x - x.mean()) ** 2).sum()) for x in repeated)
    return Noise(squares / df if df else math.nan, df)


def chosen_places(rates: ArrayLike, losses: ArrayLike) -> np.ndarray:
    """Choose a rate for each variant: the one nearest to the lowest point of its curve.

    The curve is laid about the lowest mean. A rate whose mean is clearly above the lowest is not chosen,
    whatever a curve says. Without a curve (a single seed, fewer than ``FEWEST`` rates) the lowest mean is
    chosen, of equal ones the first.

    Args:
        rates: (R,) logarithms.
        losses: (..., V, R, T) of the tuning of one setting; nan where a run diverged, which rules a rate out.
            Every variant has a rate at which none did.

    Returns:
        (..., V) places of the rates.
    """
    # Means of .038, .000, .001, .014 at factors 1/8, 1/4, 1/2, 1 and of .003 at 2: the curve is lowest at
    # .45, so 1/2 is chosen. It lies .001 above 1/4, of which noise of .009 over two seeds says nothing.
    losses = np.asarray(losses, dtype=float)
    means = losses.mean(-1)
    best = np.nanargmin(means, axis=-1)
    seeds = losses.shape[-1]
    if seeds < 2 or len(np.asarray(rates)) < FEWEST:
        return best
    at_best = np.take_along_axis(losses, best[..., None, None], -2)
    noise, df = moderated_noise(at_best[..., 0, :].var(-1, ddof=1), seeds - 1)
    curves = fit_curves(rates, np.where(np.isfinite(means)[..., None], losses, np.nan), best, noise, df)
    a, b, _ = np.moveaxis(curves.coefficients, -1, 0)
    optimum = _lowest_place(a, b, curves.low, curves.high)
    # By the variant's own differences over seeds: what all rates of a seed share is not in them, nor is the
    # noise of other variants, beside which a steady one would be moved by many times its own.
    others = curves.fit.any(-2) & (curves.places != 0)
    apart = np.where(others, (losses - at_best).var(-1, ddof=1), 0.0).sum(-1) / np.maximum(others.sum(-1), 1)
    clearly = NO_WORSE * np.sqrt(apart / seeds)
    is_as_good = _or_zero(curves.means) - np.nanmin(means, -1)[..., None] <= clearly[..., None]
    may_be_chosen = curves.fit.any(-2) & is_as_good
    distances = np.where(may_be_chosen, np.abs(curves.places - optimum[..., None]), np.inf)
    return np.where(np.isfinite(curves.low), distances.argmin(-1), best)


def fit_curves(
    rates: ArrayLike, losses: ArrayLike, best: ArrayLike, noise: ArrayLike, df: ArrayLike
) -> Curves:
    """Lay a curve through the losses of each variant about its chosen rate.

    Args:
        rates: (R,) logarithms.
        losses: (..., V, R, T) of the tuning of one setting; nan at a rate at which a run diverged.
        best: (..., V) places of the chosen rates.
        noise: (..., V) variance of a run over seeds at the chosen rate.
        df: (..., V) its degrees of freedom.
    """
    rates, losses, noise, df = (np.asarray(x, dtype=float) for x in (rates, losses, noise, df))
    best = np.asarray(best)
    # The mean losses, as heights above the chosen rate at the place 0.
    means = losses.mean(-1)
    steps = np.arange(len(rates)) - best[..., None]
    places = rates - rates[best][..., None]
    heights = means - np.take_along_axis(means, best[..., None], -1)
    variance = np.maximum(noise / losses.shape[-1], LEAST_ERROR**2)
    used = _in_window(heights, steps, np.sqrt(variance))
    # What a mean weighs: a loss 0.1 above the chosen one is trusted to within 0.02, which beside a standard
    # error of 0.01 is a misfit of 4 of its variance, and a fifth of the weight.
    misfit = np.where(used, (MISFIT * heights) ** 2, 0.0) / variance[..., None]
    growth, correlation = _growth_and_correlation(losses, steps, used / (1 + misfit))
    relative = np.exp(growth[..., None, None] * steps)
    apart, shared = variance * (1 - correlation[..., None]), variance * correlation[..., None]
    weights = used / (relative**2 + misfit * (variance / apart)[..., None])
    number = used.sum(-1)
    has_curve = number >= FEWEST
    # A parabola first, whose bend says how large a cubic term is believed; then both, with that as a ridge.
    design = np.stack([places**2, places, np.ones_like(places), places**3], -1)
    straight, _ = _least_squares(design[..., :3], weights * has_curve[..., None], 0.0)
    bend = BEND * (straight[..., 0, :] * _or_zero(means)).sum(-1)
    fit, inverse = _least_squares(
        design, weights * has_curve[..., None], apart / np.maximum(bend**2, NEGLIGIBLE)
    )
    coefficients = (fit * _or_zero(means)[..., None, :]).sum(-1)
    # Where the curve does not fit, its errors grow: the noise is pooled with what the means miss it by.
    misses = _or_zero(means) - (design * coefficients[..., None, :]).sum(-1)
    squares = (weights * misses**2).sum(-1)
    apart = np.maximum(apart, (df * apart + squares) / (df + np.maximum(number - FEWEST, 0)))
    # What the runs of a seed share moves all means together: it cancels in a and b but for its growth.
    common = (fit * relative[..., None, :]).sum(-1)
    covariance = apart[..., None, None] * inverse
    covariance = covariance + shared[..., None, None] * common[..., :, None] * common[..., None, :]
    errors = np.sqrt(apart + shared)[..., None] * relative
    low, high = np.where(used, places, np.inf).min(-1), np.where(used, places, -np.inf).max(-1)
    beyond = np.where(has_curve, (high - low) / np.maximum(number - 1, 1) / 2, np.nan)
    parts = fit[..., :3, :], covariance[..., :2, :2]
    return Curves(places, means, errors, *parts, low - beyond, high + beyond, df)


def _least_squares(
    design: np.ndarray, weights: np.ndarray, ridge: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """(..., P, R) what each value carries into P coefficients, and (..., P, P) their covariance per variance.

    Args:
        design: (..., R, P).
        weights: (..., R); of zeros alone the coefficients mean nothing.
        ridge: (...) of the last coefficient.
    """
    normal = np.einsum("...ri,...r,...rj->...ij", design, weights, design)
    normal[..., -1, -1] += ridge
    has_any = np.any(weights, axis=-1, keepdims=True)[..., None]
    normal = np.where(has_any, normal, np.eye(design.shape[-1]))
    inverse = np.linalg.inv(normal)
    return np.einsum("...ij,...rj,...r->...ir", inverse, design, weights), inverse


def _or_zero(values: np.ndarray) -> np.ndarray:
    """Values, with 0 where a run diverged or there is none."""
    return np.where(np.isfinite(values), values, 0.0)


def _in_window(heights: np.ndarray, steps: np.ndarray, error: np.ndarray) -> np.ndarray:
    """(..., R) which rates a curve goes through: the nearest that are usable and have not collapsed.

    Args:
        heights: (..., R) of losses above the chosen one.
        steps: (..., R) from the chosen rate.
        error: (...) standard errors of the means.
    """
    others = np.where(np.isfinite(heights) & (steps != 0), heights, np.inf)
    second = np.maximum(np.sort(others, -1)[..., 1:2], 0.0) if heights.shape[-1] > 2 else np.inf
    usable = np.isfinite(heights) & (heights <= COLLAPSED * second + SURE * error[..., None])
    far = np.where(usable, np.abs(steps), usable.shape[-1] + np.abs(steps))
    return usable & (far.argsort(-1, kind="stable").argsort(-1) < WINDOW)


def _growth_and_correlation(
    losses: np.ndarray, steps: np.ndarray, trust: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(...) how noise grows from rate to rate, and how the losses of a seed at neighbours go together.

    The growth is a slope within variants, by least squares. The correlation is that of normal losses that lie
    on the same side of their means so often (Greiner 1909), less one standard error of that share: of two
    seeds and few variants it is not to be believed.

    Args:
        losses: (..., V, R, T).
        steps: (..., V, R) from the chosen rate.
        trust: (..., V, R) what each rate counts, zero outside the window.
    """
    if losses.shape[-1] < 2:
        return np.zeros(losses.shape[:-3]), np.zeros(losses.shape[:-3])
    seeds = np.isfinite(losses).sum(-1)
    trust = np.where(seeds > 1, trust, 0.0)
    means = _or_zero(losses).sum(-1, keepdims=True) / np.maximum(seeds, 1)[..., None]
    off = _or_zero(losses - means)
    spreads = np.log((off**2).sum(-1) + LEAST_ERROR**2) / 2
    total = np.maximum(trust.sum(-1, keepdims=True), NEGLIGIBLE)
    centred = steps - (trust * steps).sum(-1, keepdims=True) / total
    weight = (trust * centred**2).sum((-1, -2))
    growth = (trust * centred * spreads).sum((-1, -2)) / np.maximum(weight, NEGLIGIBLE)
    pairs = np.minimum(trust[..., 1:], trust[..., :-1])
    number = np.maximum(pairs.sum((-1, -2)), NEGLIGIBLE)
    free = np.maximum((pairs * (seeds[..., 1:] - 1)).sum((-1, -2)), NEGLIGIBLE)
    agree = (np.sign(off[..., 1:, :]) * np.sign(off[..., :-1, :])).sum(-1) / np.maximum(seeds[..., 1:], 1)
    share = (pairs * agree).sum((-1, -2)) / number - 1 / np.sqrt(free)
    correlation = np.sin(np.pi / 2 * np.clip(share, 0, 1))
    return np.clip(growth, LEAST_GROWTH, MOST_GROWTH), np.minimum(correlation, MOST_CORRELATION)


def squared_regret(curves: Curves) -> np.ndarray:
    """(..., V) the expected square of what choices miss, which is added to the variance of an arm's mean.

    The expectation is over the curves that the tuning leaves open: a and b have a bivariate t about the fit.
    A curve that opens downwards is taken for less likely beforehand than one that opens upwards
    (``DOWNWARD``). In polar coordinates about the fit the distance has the quantile function of r below;
    angles are evenly spaced, and the rule over distances is Gauss and Legendre's. Up to 2 degrees of freedom
    the expectation is infinite; without a curve it is nan.

    It is no less than the square of what the mean at the choice lies above the lowest of the curve's: a
    choice by a curve is at its lowest point, so a curve of the wrong shape sees least of what it misses.
    """
    shape = curves.df.shape
    curves = Curves(*(np.reshape(x, (-1, *x.shape[curves.df.ndim :])) for x in curves))
    used = np.where(curves.fit.any(-2), curves.means, np.inf)
    seen = np.where(curves.places == 0, _or_zero(curves.means), 0.0).sum(-1) - used.min(-1)
    df = np.maximum(curves.df, 2.0)[:, None]
    nodes, weights = np.polynomial.legendre.leggauss(RADII)
    nodes = (nodes + 1) / 2
    weights = weights * df * nodes ** (df - 1)
    radius = np.sqrt(df * (nodes**-2 - 1))
    (var_a, both), (_, var_b) = np.moveaxis(curves.covariance, 0, -1)
    error_a = np.sqrt(var_a)
    with_a, apart = both / error_a, np.sqrt(np.maximum(var_b - both**2 / var_a, 0))
    # Curves (a, b) on circles about the fit: distance by distance and angle by angle.
    a, b, _ = curves.coefficients.T
    total = chance = np.zeros(len(a))
    for angle in (np.arange(ANGLES) + 0.5) * 2 * np.pi / ANGLES:
        cos, sin = np.cos(angle), np.sin(angle)
        curvature = a[:, None] + radius * (error_a * cos)[:, None]
        slope = b[:, None] + radius * (with_a * cos + apart * sin)[:, None]
        likely = weights * np.where(curvature > 0, 1.0, DOWNWARD)
        regret = _depth(curvature, slope, curves.low[:, None], curves.high[:, None])
        total = total + (likely * regret**2).sum(-1)
        chance = chance + likely.sum(-1)
    found = np.maximum(total / chance, np.maximum(seen, 0.0) ** 2)
    return np.where(curves.df > 2, found, np.inf).reshape(shape)


def _depth(a: np.ndarray, b: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How far a t^2 + b t falls below zero between two ends, of which zero is between."""
    place = _lowest_place(a, b, low, high)
    return -np.minimum((a * place + b) * place, 0.0)


def _lowest_place(a: np.ndarray, b: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where a t^2 + b t is lowest between two ends."""
    end = np.where((a * high + b) * high < (a * low + b) * low, high, low)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(a > 0, np.clip(-b / (2 * a), low, high), end)


def squared_regret_of_few(means: ArrayLike, error: float, df: float, best: int) -> float:
    """Return the same of two rates, or of values between which nothing lies.

    It is the sum over the other values of the expected squares by which each may be better: exact of two, and
    more than what the best of several may be better by. Differences have Student's t.

    Args:
        means: (R,) over tuning seeds.
        error: Standard error of each.
        df: Its degrees of freedom; up to 2 the expectation is infinite.
        best: Place of the chosen value.
    """
    if df <= 2:
        return math.inf
    means, apart = np.asarray(means, dtype=float), math.sqrt(2) * max(error, LEAST_ERROR)
    x = (means[best] - np.delete(means, best)) / apart
    density = np.exp(special.gammaln((df + 1) / 2) - special.gammaln(df / 2)) / math.sqrt(df * math.pi)
    density = density * (1 + x**2 / df) ** (-(df + 1) / 2)
    squares = df * (df - 1) / (df - 2) * special.stdtr(df - 2, x * math.sqrt((df - 2) / df))
    squares = squares + (x**2 - df) * special.stdtr(df, x) + 2 * x * (df + x**2) / (df - 1) * density
    return float(apart**2 * squares.sum())


def curve(curves: Curves, best: float) -> Curve:
    """Say where the loss of one variant is lowest, and what a threefold wrong rate costs.

    Between rates the loss is that of the curve and, linearly between them, what means lie above it.

    Args:
        curves: Of one variant, without the dimension V.
        best: Logarithm of its chosen rate.
    """
    is_known = np.isfinite(curves.means)
    places, losses = curves.places[is_known], curves.means[is_known]
    a, b, _ = coefficients = curves.coefficients
    optimum = float(_lowest_place(a, b, curves.low, curves.high))
    lowest, margin = float(np.polyval(coefficients, optimum)), np.diff(places).max() / 2

    def cost(step: float) -> float | None:
        place = optimum + step
        if not places[0] - margin <= place <= places[-1] + margin:
            return None
        above = np.interp(place, places, losses - np.polyval(coefficients, places))
        return float(np.polyval(coefficients, place) + above) - lowest

    wrong = math.log(WRONG_FACTOR)
    return Curve(optimum=math.exp(optimum + best), loss=lowest, lower=cost(-wrong), higher=cost(wrong))
