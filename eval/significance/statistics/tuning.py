"""What a tuning on a grid of rates knows: the choice, the curve about it, and what the choice may miss.

Shapes: any leading dimensions (studies, variants), R rates in rising order, T tuning seeds. Rates stand as
their natural logarithms, losses in any unit. What may be true of the losses at the rates follows from what
the tuning saw: normal about the means, with a variance over seeds, and a chi-square for what is not known of
that (the posterior under flat priors; Gelman et al. 2013, section 3.2). The curve between rates is the
parabola through the lowest of the losses and its neighbours. Expectations are integrated, nothing is drawn.

The variance is each variant's own, moderated: few runs tell little of it, so it is drawn to what is usual
among the variants, as are the variances of genes in an experiment of few samples (Smyth 2004). One that is
pooled over all would be ruled by a single unstable variant.

The regret of a choice is the loss at the chosen rate minus the lowest of the curve. It shifts what the main
runs find, which can be no better than their rate. Its expected square is added to the variance of an arm's
mean. A shift b that is added so, as b squared, keeps a two-sided test at its level whatever b is:
|Z + b| > z sqrt(1 + b^2) has at most the chance of |Z| > z for the levels in use. Regrets of several arms
add up within a side of a contrast (``welch.sum_of_regrets``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from eval.significance.statistics.welch import CONFIDENCE, sum_of_regrets

PRIOR_DF = 2.0
"""Of what is usual among variants, when it is weighed against a variant's own runs: few, as spreads do differ
from variant to variant."""
WRONG_FACTOR = 3.0
"""How wrong a rate is whose cost is told."""
SMOOTH_NODES = 24
"""Of Gauss and Legendre's rule, over the scale and over the lowest loss."""
NODES = 16
"""Of the same rule, over the distance of each neighbour."""
WIDE = 5.0
"""How many standard errors from its mean a loss may lie."""
NEGLIGIBLE = 1e-12
LEAST_ERROR = 1e-12
SLOPE_STEP = 1e-4
"""In standard errors."""


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
class Estimate:
    """A number with its interval, in the unit of the losses or as a logarithm of a rate."""

    value: float
    interval: tuple[float, float] | None
    """None where it is the end of what was searched."""

    @property
    def exp(self) -> Estimate:
        """The same of what this is the logarithm of."""
        ends = self.interval and (math.exp(self.interval[0]), math.exp(self.interval[1]))
        return Estimate(value=math.exp(self.value), interval=ends)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Loss against the logarithm of the rate for one variant."""

    optimum: Estimate
    """Logarithm of the rate at which the loss is lowest."""
    loss: Estimate
    """There."""
    lower: Estimate | None
    """What a rate of a third of the optimum costs; None where the grid does not reach so far."""
    higher: Estimate | None
    """The same of three times the optimum."""


class Lowest(NamedTuple):
    """Where curves are lowest: the logarithm of the rate, and the loss; both (...)."""

    place: np.ndarray
    loss: np.ndarray


def moderated_noise(variances: ArrayLike, df: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Draw each variant's variance over seeds to what is usual among the variants.

    What is usual is the median over variants, each variance divided by what it is below its expectation in
    the median. It counts for ``PRIOR_DF`` degrees of freedom. So a variance of 4 among many of 1, each of
    two tuning runs and five main runs, which have 5 degrees of freedom, becomes (5 * 4 + 2 * 1) / 7 with 7.

    Args:
        variances: (..., V) unbiased, each of the runs at a variant's best rate; whatever where df is zero.
        df: (..., V) their degrees of freedom.

    Returns:
        Variances and degrees of freedom, (..., V); variances are nan where no variant has any.
    """
    variances, df = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (variances, df)))
    is_known = df > 0
    own = np.where(is_known, variances, 0.0)
    known_df = np.where(is_known, df, 1.0)
    low = 2 * special.gammaincinv(known_df / 2, 0.5) / known_df  # the median of a chi-square over its df
    usual = np.ma.median(np.ma.array(own / low, mask=~is_known), axis=-1, keepdims=True)
    usual = np.ma.filled(usual.astype(float), np.nan)
    return (PRIOR_DF * usual + df * own) / (PRIOR_DF + df), PRIOR_DF + df


def own_noise(groups: Sequence[ArrayLike]) -> Noise:
    """Pool the variance within groups of runs that all are at one rate; of no two runs, with no df.

    Args:
        groups: Losses, such as those of tuning runs and of main runs, which differ in what they are
            judged on.
    """
    known = [np.asarray(x, dtype=float) for x in groups if len(np.asarray(x)) > 1]
    df = sum(len(x) - 1 for x in known)
    squares = sum(float(((x - x.mean()) ** 2).sum()) for x in known)
    return Noise(squares / df if df else math.nan, df)


def lowest(rates: ArrayLike, losses: ArrayLike) -> Lowest:
    """Find the lowest of curves through some rates.

    It is that of the parabola through the lowest loss and its neighbours. At an edge of the grid the parabola
    is that of the last three rates, and followed half a spacing beyond: if it still falls there, that far.

    Args:
        rates: (R,) logarithms.
        losses: (..., R).
    """
    rates, losses = np.asarray(rates, dtype=float), np.asarray(losses, dtype=float)
    best = losses.argmin(-1)
    floor = np.take_along_axis(losses, best[..., None], -1)[..., 0]
    if len(rates) < 3:
        return Lowest(rates[best], floor)
    middle = np.clip(best, 1, len(rates) - 2)
    x, y = (_triple(values, middle) for values in (np.broadcast_to(rates, losses.shape), losses))
    slope, curvature = _divided(x, y)
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = x[1] - slope / (2 * curvature)
    place = np.clip(vertex, x[0] - (x[1] - x[0]) / 2, x[2] + (x[2] - x[1]) / 2)
    loss = y[1] + slope * (place - x[1]) + curvature * (place - x[1]) ** 2
    is_lower = (curvature > 0) & (loss < floor)
    return Lowest(np.where(is_lower, place, rates[best]), np.where(is_lower, loss, floor))


def _triple(values: np.ndarray, middle: np.ndarray) -> list[np.ndarray]:
    return [np.take_along_axis(values, (middle + shift)[..., None], -1)[..., 0] for shift in (-1, 0, 1)]


def _divided(x: list[np.ndarray], y: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Slope at the middle one of three points, and half the second derivative, of the parabola."""
    left, right = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
    curvature = (right - left) / (x[2] - x[0])
    return left + curvature * (x[1] - x[0]), curvature


def added_variance(
    means: ArrayLike, error: float, df: float, chosen: int, rates: ArrayLike | None = None
) -> float:
    """Return what a choice adds to the variance of an arm's mean: the expected square of its regret.

    The expectation is over the losses that may be true at the rates: normal about the means, with one scale
    for all, which is that of Student's t. It is integrated numerically, nothing is drawn: over the scale, the
    lowest loss, and how far its neighbours lie above it. What lies further off need only be higher.

    Args:
        means: (R,) over tuning seeds.
        error: Standard error of each.
        df: Its degrees of freedom; up to 2 the expectation is infinite.
        chosen: Place of the chosen rate.
        rates: (R,) their logarithms; None of values between which nothing lies.
    """
    if df <= 2:
        return math.inf
    means, error = np.asarray(means, dtype=float), max(error, LEAST_ERROR)
    scales, shares = _scales(df)
    above, weights = _about_the_lowest(scales[:, None] * (means - means.min()) / error)
    weights = shares[:, None] * weights
    is_curved = rates is not None and len(means) > 2
    total = 0.0
    for best in range(len(means)):
        middle = min(max(best, 1), len(means) - 2)
        curve_of = [middle - 1, middle, middle + 1] if is_curved else [best]
        apart = [x for x in range(len(means)) if x not in (*curve_of, chosen)]
        weight = weights * _density(above[..., best]) * special.ndtr(above[..., apart]).prod(-1)
        counts = weight > NEGLIGIBLE
        places = np.asarray(rates, dtype=float)[curve_of] if is_curved else None
        squares = _squared_regret(above[counts], best, chosen, curve_of, places)
        total += float((weight[counts] * squares).sum())
    return df / (df - 2) * error**2 * total


def _scales(df: float) -> tuple[np.ndarray, np.ndarray]:
    """(K,) how far apart means are in standard errors, for a distance of 1, and the weights of these.

    A regret is as large as the scale of the errors, so the expected square over scales sqrt(df / chi-square)
    is df / (df - 2) times that of the same regrets in units of the scale, over a chi-square with df - 2.
    """
    start, end = (math.sqrt(special.chdtri(df - 2, x) / df) for x in (1 - NEGLIGIBLE, NEGLIGIBLE))
    nodes, weights = np.polynomial.legendre.leggauss(SMOOTH_NODES)
    scales = start + (end - start) * ((nodes + 1) / 2) ** 2  # denser where few standard errors are between
    log_density = (df - 3) * np.log(scales) - df * scales**2 / 2
    weights = weights * (nodes + 1) * np.exp(log_density - log_density.max())
    return scales, weights / weights.sum()


def _about_the_lowest(means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(..., T, R) how far means lie above what may be the lowest loss, in standard errors, and (T,) weights.

    Args:
        means: (..., R), the lowest of them 0.
    """
    nodes, weights = np.polynomial.legendre.leggauss(SMOOTH_NODES)
    return means[..., None, :] - WIDE * nodes[:, None], WIDE * weights


def _squared_regret(
    above: np.ndarray, best: int, chosen: int, curve_of: Sequence[int], places: np.ndarray | None
) -> np.ndarray:
    """(M,) the expected square where the loss at ``best`` is the lowest, times the chance of that.

    Args:
        above: (M, R) how far the means lie above the lowest loss.
        best: Whose loss is the lowest.
        chosen: Whose is the regret.
        curve_of: Rates of the parabola; only the lowest where there is none.
        places: Their logarithms, or None.
    """
    distances, gain = {best: np.zeros((len(above), 1, 1))}, np.zeros(1)
    weights = np.ones((len(above), 1, 1))
    if places is not None:
        apart = np.abs(places - places[curve_of.index(best)])
        _, near, far = (curve_of[x] for x in np.argsort(apart, kind="stable"))
        of_near = _higher(above[:, near], np.zeros((len(above), 1, 0)))
        distances[near], weights = (x.swapaxes(1, 2) for x in of_near)
        turns = distances[near] * _turns(np.sort(apart), is_edge=best != curve_of[1])
        distances[far], of_far = _higher(above[:, far], turns)
        weights = weights * of_far
        losses = np.stack([np.broadcast_to(distances[x], weights.shape) for x in curve_of], -1)
        gain = -lowest(places, losses).loss
    if chosen in distances:
        return (weights * (distances[chosen] + gain) ** 2).sum((1, 2))
    none, first, second = (x[:, None, None] for x in _cut_moments(above[:, chosen]))
    return (weights * (second + 2 * gain * first + gain**2 * none)).sum((1, 2))


def _turns(apart: np.ndarray, is_edge: bool) -> np.ndarray:
    """Where the lowest of the parabola turns: how high the further neighbour is, in heights of the nearer.

    At an edge of the grid the parabola first opens downwards, then is lowest half a spacing beyond it, then
    nearer.

    Args:
        apart: (3,) how far the rates are from that of the lowest loss, in rising order.
        is_edge: Whether that is none between the others.
    """
    _, near, far = apart
    return np.array([far / near, far * (near + far) / (2 * near**2)] if is_edge else [])


def _higher(above: np.ndarray, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(M, N, K) how far losses with means (M,) may lie above the lowest, and the weights of that.

    Args:
        above: (M,) how far the means lie above it.
        turns: (M, N, B) in rising order; between them the integrand is smooth.
    """
    above = above[:, None, None]
    low, high = np.maximum(above - WIDE, 0.0), np.maximum(above, 0.0) + WIDE
    ends = np.pad(np.clip(turns, low, high), ((0, 0), (0, 0), (1, 1)))
    ends[..., :1], ends[..., -1:] = low, high
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    halves = np.diff(ends)[..., None] / 2
    heights, shares = ends[..., :-1, None] + halves * (nodes + 1), halves * weights
    shares = shares * _density(heights - above[..., None])
    shape = (*heights.shape[:2], heights.shape[2] * NODES)
    return heights.reshape(shape), shares.reshape(shape)


def _cut_moments(means: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean of 1, x and x^2 where x > 0, else of 0, for normal x with these means and variance 1."""
    is_above, density = special.ndtr(means), _density(means)
    return is_above, means * is_above + density, (1 + means**2) * is_above + means * density


def _density(x: np.ndarray) -> np.ndarray:
    return np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


def choice_share(means: ArrayLike, error: float, chosen: int) -> float:
    """Return how often a rate would be chosen with other tuning seeds, if the means (R,) were the truth.

    Args:
        means: (R,) over tuning seeds.
        error: Standard error of each.
        chosen: Place of the rate.
    """
    means = np.asarray(means, dtype=float)
    above, weights = _about_the_lowest((means - means.min()) / max(error, LEAST_ERROR))
    others = np.delete(above, chosen, -1)
    return float((weights * _density(above[:, chosen]) * special.ndtr(others).prod(-1)).sum())


def curve(
    rates: ArrayLike, means: ArrayLike, error: float, df: float, confidence: float = CONFIDENCE
) -> Curve:
    """Say where a variant's loss is lowest, and what a threefold wrong rate costs.

    Intervals are Student's, with the error that the means carry into each number by its slopes (the delta
    method).

    Args:
        rates: (R,) logarithms.
        means: (R,) mean losses.
        error: Standard error of each.
        df: Its degrees of freedom.
        confidence: Level of the intervals.
    """
    rates, means = np.asarray(rates, dtype=float), np.asarray(means, dtype=float)
    reach = float(special.stdtrit(df, (1 + confidence) / 2)) * error

    def estimate(of: Callable[[np.ndarray], np.ndarray]) -> Estimate:
        step = SLOPE_STEP * max(error, LEAST_ERROR) * np.eye(len(means))
        slopes = (of(means + step) - of(means - step)) / (2 * step.max())
        value, half = float(of(means)), reach * float(np.linalg.norm(slopes))
        return Estimate(value=value, interval=(value - half, value + half) if slopes.any() else None)

    def cost(side: int) -> Estimate | None:
        step = side * math.log(WRONG_FACTOR)
        margin = np.diff(rates).max() / 2 if len(rates) > 2 else -np.inf
        if not rates[0] - margin <= lowest(rates, means).place + step <= rates[-1] + margin:
            return None

        def of(losses: np.ndarray) -> np.ndarray:
            best = lowest(rates, losses)
            return loss_at(rates, losses, best.place + step) - best.loss

        return estimate(of)

    optimum = estimate(lambda losses: lowest(rates, losses).place)
    if optimum.interval is not None:
        ends = 1.5 * rates[[0, -1]] - 0.5 * rates[[1, -2]]
        low, high = np.clip(optimum.interval, *ends).tolist()
        optimum = Estimate(value=optimum.value, interval=(low, high))
    return Curve(
        optimum=optimum,
        loss=estimate(lambda losses: lowest(rates, losses).loss),
        lower=cost(-1),
        higher=cost(1),
    )


def loss_at(rates: ArrayLike, losses: ArrayLike, place: ArrayLike) -> np.ndarray:
    """(...) losses between rates, by the parabola through the three rates about the nearest one.

    Args:
        rates: (R,) logarithms, at least three.
        losses: (..., R).
        place: (...) logarithms of rates.
    """
    rates, losses, place = (np.asarray(x, dtype=float) for x in (rates, losses, place))
    nearest = np.abs(place[..., None] - rates).argmin(-1)
    middle = np.clip(nearest, 1, len(rates) - 2)
    x, y = (_triple(values, middle) for values in (np.broadcast_to(rates, losses.shape), losses))
    slope, curvature = _divided(x, y)
    return y[1] + slope * (place - x[1]) + curvature * (place - x[1]) ** 2


def expected_best(losses: ArrayLike) -> np.ndarray:
    """(N,) the expected lowest loss of k of N trials, for k from 1 to N (Dodge et al. 2019).

    Trials are drawn without replacement: the unbiased form (Tang et al. 2020, arXiv:2004.13705). Dodge's own,
    with replacement, is too high for losses and does not arrive at the best one found.

    Args:
        losses: (N,) of all trials, infinite where a run diverged.
    """
    ordered = np.sort(np.asarray(losses, dtype=float))
    number = len(ordered)
    found = []
    for k in range(1, number + 1):
        shares = [math.comb(number - place, k - 1) / math.comb(number, k) for place in range(1, number + 1)]
        found.append(sum(share * loss for share, loss in zip(shares, ordered, strict=True) if share))
    return np.array(found)
