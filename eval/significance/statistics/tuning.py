"""What a tuning on a grid of rates knows: the choice, the curve about it, and what the choice may miss.

Shapes: any leading dimensions (studies, variants), R rates in rising order, T tuning seeds, D draws. Rates
stand as their natural logarithms, losses in any unit. What is true of the losses at the rates is drawn from
what the tuning saw: normal about the means, with a variance over seeds, and a chi-square for what is not
known of that (the posterior under flat priors; Gelman et al. 2013, section 3.2). The curve between rates is
the parabola through the lowest of the drawn losses and its neighbours.

The variance is each variant's own, moderated: few runs tell little of it, so it is drawn to what is usual
among the variants, as are the variances of genes in an experiment of few samples (Smyth 2004). One that is
pooled over all would be ruled by a single unstable variant.

The regret of a choice is the loss at the chosen rate minus the lowest of the curve. It shifts what the main
runs find, which can be no better than their rate. Its mean square over draws is added to the variance of an
arm's mean. A shift b that is added so, as b squared, keeps a two-sided test at its level whatever b is:
|Z + b| > z sqrt(1 + b^2) has at most the chance of |Z| > z for the levels in use. Regrets of several arms
add up within a side of a contrast (``welch.sum_of_regrets``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from eval.significance.statistics.welch import CONFIDENCE, sum_of_regrets

DRAWS = 2_000
PRIOR_DF = 2.0
"""Of what is usual among variants, when it is weighed against a variant's own runs: few, as spreads do differ
from variant to variant."""
WRONG_FACTOR = 3.0
"""How wrong a rate is whose cost is told."""


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
    low: float
    high: float

    @property
    def exp(self) -> Estimate:
        """The same of what this is the logarithm of."""
        return Estimate(value=math.exp(self.value), low=math.exp(self.low), high=math.exp(self.high))


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


def draw_losses(
    means: ArrayLike, error: ArrayLike, df: float, rng: np.random.Generator, draws: int = DRAWS
) -> np.ndarray:
    """(D, ..., R) true losses at every rate as they may be.

    Args:
        means: (..., R) over tuning seeds.
        error: Standard error of the means, of one shape with them or with fewer dimensions.
        df: Its degrees of freedom.
        rng: Random numbers.
        draws: How many.
    """
    means = np.asarray(means, dtype=float)
    scale = np.sqrt(df / rng.chisquare(df, draws)).reshape(-1, *[1] * means.ndim)
    return means + scale * np.asarray(error) * rng.standard_normal((draws, *means.shape))


def regrets(rates: ArrayLike, drawn: ArrayLike, chosen: ArrayLike) -> np.ndarray:
    """(...) how far the loss at the chosen rate lies above the lowest.

    Args:
        rates: (R,) logarithms.
        drawn: (..., R) losses.
        chosen: Place of the chosen rate, for all or one for each of the last dimensions but R.
    """
    drawn = np.asarray(drawn, dtype=float)
    places = np.broadcast_to(np.asarray(chosen), drawn.shape[:-1])[..., None]
    return np.take_along_axis(drawn, places, -1)[..., 0] - lowest(rates, drawn).loss


def added_variance(rates: ArrayLike, drawn: ArrayLike, chosen: ArrayLike) -> np.ndarray:
    """(...) what choices add to the variance of an arm's mean: the mean square of the regret over draws.

    Args:
        rates: (R,) logarithms.
        drawn: (D, ..., R) losses.
        chosen: (...) places of the chosen rates.
    """
    return (regrets(rates, drawn, chosen) ** 2).mean(0)


def choice_shares(means: ArrayLike, error: float, rng: np.random.Generator, draws: int = DRAWS) -> np.ndarray:
    """(R,) how often each rate would be chosen with other tuning seeds, if the means (R,) were the truth.

    A parametric bootstrap: few seeds have too few resamples of their own.

    Args:
        means: (R,) over tuning seeds.
        error: Standard error of each.
        rng: Random numbers.
        draws: How many.
    """
    means = np.asarray(means, dtype=float)
    normal = rng.standard_normal((draws, len(means)))
    best = (means + error * normal).argmin(-1)
    return np.bincount(best, minlength=len(means)) / draws


def curve(rates: ArrayLike, means: ArrayLike, drawn: ArrayLike, confidence: float = CONFIDENCE) -> Curve:
    """Say where a variant's loss is lowest, and what a threefold wrong rate costs.

    Args:
        rates: (R,) logarithms.
        means: (R,) mean losses.
        drawn: (D, R) of ``draw_losses``.
        confidence: Level of the intervals.
    """
    rates, means, drawn = (np.asarray(x, dtype=float) for x in (rates, means, drawn))
    found, spread = lowest(rates, means), lowest(rates, drawn)
    lower, higher = (_cost(rates, means, drawn, found, spread, side, confidence) for side in (-1, 1))
    return Curve(
        optimum=_estimate(found.place, spread.place, confidence),
        loss=_estimate(found.loss, spread.loss, confidence),
        lower=lower,
        higher=higher,
    )


def _cost(
    rates: np.ndarray,
    means: np.ndarray,
    drawn: np.ndarray,
    found: Lowest,
    spread: Lowest,
    side: int,
    confidence: float,
) -> Estimate | None:
    """What a wrong rate costs in the curve of the means, with the interval over drawn curves."""
    step = side * math.log(WRONG_FACTOR)
    place = float(found.place) + step
    margin = np.diff(rates).max() / 2 if len(rates) > 2 else -np.inf
    if not rates[0] - margin <= place <= rates[-1] + margin:
        return None
    value = loss_at(rates, means, found.place + step) - found.loss
    return _estimate(value, loss_at(rates, drawn, spread.place + step) - spread.loss, confidence)


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


def _estimate(value: ArrayLike, drawn: np.ndarray, confidence: float) -> Estimate:
    """The value, with the quantiles of its draws, widened where they leave it out."""
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    found = float(np.asarray(value))
    return Estimate(value=found, low=min(float(low), found), high=max(float(high), found))


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
