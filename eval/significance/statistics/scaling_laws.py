"""Power laws of loss in size: L(N) = E + A N^-alpha, and what they say of a size that was left out.

Fitted as Hoffmann et al. 2022 (https://arxiv.org/abs/2203.15556, section 3.3 and D.2): the Huber loss, with
delta 1e-3, of log(E + A N^-alpha) - log L over sizes, from a grid of starts. It is summed, not averaged, and
refined until nothing moves: stopping early was what the published fit suffered from (Besiroglu et al. 2024,
https://arxiv.org/abs/2404.10102). N may as well be training FLOPs. L is the mean over the seeds of a size,
of which there was one there: so small a delta would take the median of single runs, and of an even number of
them anything between the middle two.

Three sizes leave the law no freedom: it goes through the mean of each, and nothing tests it. Two sizes can
only hold the law without E, a straight line in logarithms, which cannot bend as losses do near a floor.

Shapes: S sizes; n runs of a size; P fits; any leading dimensions are fits of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from eval.significance.statistics.welch import CONFIDENCE

HUBER_DELTA = 1e-3
EXPONENTS = np.geomspace(0.01, 3.0, 20)
"""From which fits start."""
NUM_STARTS = 3
"""Of them, the best, are refined."""
MOST_STEPS = 300
STILL_STEPS = 8
"""Steps in a row without a lower loss, after which nothing moves."""
LEAST_FLOOR = 1e-3
LARGEST_EXPONENT = 5.0
MIN_SIZES_FOR_FLOOR = 3


class PowerLaw(NamedTuple):
    """E, A and alpha of fits; of the law without E the floor is 0."""

    floor: np.ndarray
    """E: what no size would bring the loss below."""
    scale: np.ndarray
    """A."""
    exponent: np.ndarray
    """alpha."""
    objective: np.ndarray
    """The summed Huber loss."""

    def at(self, sizes: ArrayLike) -> np.ndarray:
        """Return the losses (..., K) of fits (...) at sizes (K,)."""
        sizes = np.asarray(sizes, dtype=float)
        decay = sizes ** -self.exponent[..., None]
        return self.floor[..., None] + self.scale[..., None] * decay


class Prediction(NamedTuple):
    """The loss at the largest size, predicted from the smaller ones, and what it is."""

    predicted: float
    observed: float
    """Mean over runs."""
    spread: float
    """Standard deviation over runs; nan of one run."""
    error_interval: tuple[float, float] | None
    """Of predicted - observed, the noise of both in it; None where a size has one run."""
    has_floor: bool
    """Whether the law that predicts has E; with two sizes it has none."""
    next_smaller: float
    """Mean at the largest size that was used: what one would expect who knew of no law."""

    @property
    def error(self) -> float:
        """Predicted - observed."""
        return self.predicted - self.observed

    @property
    def in_spreads(self) -> float:
        """The error in standard deviations over the runs at the largest size."""
        return self.error / self.spread if self.spread > 0 else float("nan")


def at_end(exponent: float) -> bool:
    """Whether an exponent lies where its search ends, which says no more than that it is large."""
    return abs(exponent) > 0.99 * LARGEST_EXPONENT


def fit_power_law(sizes: ArrayLike, losses: ArrayLike, has_floor: bool = True) -> PowerLaw:
    """Fit the law.

    Args:
        sizes: (S,) above zero; three different ones or more for the law with E, else two.
        losses: (..., S) mean losses there, above zero.
        has_floor: Whether to fit E; without it the law is a line in logarithms.

    Returns:
        Fields of shape (...).
    """
    x, y = np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(losses, dtype=float))
    middle, shape = x.mean(), y.shape[:-1]
    x, y = x - middle, y.reshape(-1, y.shape[-1])
    starts = _starts(x, y, has_floor)
    num_starts = starts.shape[1]
    found, objective = _refine(starts.reshape(-1, 3), x, np.repeat(y, num_starts, axis=0))
    objective = objective.reshape(-1, num_starts)
    best = objective.argmin(axis=1)
    rows = np.arange(len(y))
    floor, scale, exponent = found.reshape(-1, num_starts, 3)[rows, best].T
    fitted = (np.exp(floor), np.exp(scale + exponent * middle), exponent, objective[rows, best])
    return PowerLaw(*(values.reshape(shape) for values in fitted))


def law_interval(
    sizes: Sequence[float],
    losses: Sequence[np.ndarray],
    of: Callable[[PowerLaw], np.ndarray],
    confidence: float = CONFIDENCE,
    has_floor: bool = True,
    beside: ArrayLike = (),
) -> tuple[float, float] | None:
    """Return Student's interval of a number of the law, from how it moves with the mean of each size.

    Each mean is moved by half of its standard error to either side. Degrees of freedom are Satterthwaite's.

    Args:
        sizes: (S,) sizes.
        losses: (S,) arrays (n,) of the losses of their runs.
        of: The number, (...) of laws of shape (...).
        confidence: Level of the interval.
        has_floor: As of ``fit_power_law``.
        beside: (m,) further runs, whose mean is taken off the number.

    Returns:
        None where a size, or what is beside, has one run.
    """
    arms = [*losses, *([np.asarray(beside)] if np.size(beside) else [])]
    counts = np.array(list(map(len, arms)))
    if counts.min() < 2:
        return None
    means, errors = (np.array([f(x) for x in arms]) for f in (np.mean, standard_error))
    number = len(sizes)
    half = np.diag(errors[:number] / 2)
    moved = means[:number] + np.concatenate([half, -half, np.zeros((1, number))])
    values = of(fit_power_law(sizes, moved, has_floor))
    parts = (values[:number] - values[number:-1]) ** 2
    parts = np.concatenate([parts, errors[number:] ** 2])
    value, variance = values[-1] - means[number:].sum(), parts.sum()
    if not variance:
        return float(value), float(value)
    df = variance**2 / (parts**2 / (counts - 1)).sum()
    reach = float(special.stdtrit(df, (1 + confidence) / 2) * np.sqrt(variance))
    return float(value) - reach, float(value) + reach


def standard_error(runs: np.ndarray) -> float:
    """Of the mean of two runs or more."""
    return float(np.std(runs, ddof=1) / np.sqrt(len(runs)))


def predict_largest(
    sizes: Sequence[float],
    losses: Sequence[np.ndarray],
    confidence: float = CONFIDENCE,
) -> Prediction | None:
    """Predict the mean loss at the largest size from the others.

    Args:
        sizes: (S,) ascending.
        losses: (S,) arrays (n,) of the losses of their runs.
        confidence: Of the interval of the error.

    Returns:
        None for fewer than three sizes: a law needs two, and one to be held against.
    """
    if len(sizes) < MIN_SIZES_FOR_FLOOR:
        return None
    smaller, largest = losses[:-1], np.asarray(losses[-1], dtype=float)
    has_floor = len(smaller) >= MIN_SIZES_FOR_FLOOR
    law = fit_power_law(sizes[:-1], [x.mean() for x in smaller], has_floor)
    error = law_interval(
        sizes[:-1], smaller, lambda law: law.at([sizes[-1]])[..., 0], confidence, has_floor, beside=largest
    )
    return Prediction(
        predicted=float(law.at([sizes[-1]])[0]),
        observed=float(largest.mean()),
        spread=float(largest.std(ddof=1)) if len(largest) > 1 else float("nan"),
        error_interval=error,
        has_floor=has_floor,
        next_smaller=float(np.mean(smaller[-1])),
    )


def _starts(x: np.ndarray, y: np.ndarray, has_floor: bool) -> np.ndarray:
    """(P, K, 3) logarithms of E and A, and alpha: for each exponent the line of least relative squares."""
    if not has_floor:
        centred = x - x.mean()
        slope = (y * centred).sum(1) / (centred**2).sum()
        return np.stack([np.full_like(slope, -np.inf), y.mean(1) - slope * x.mean(), -slope], -1)[:, None]
    losses = np.exp(y)[:, None]  # (P, 1, S)
    ones, decay = 1 / losses, np.exp(-EXPONENTS[:, None] * x) / losses  # (P, G, S), of relative residuals
    a, b, c = (ones**2).sum(-1), (ones * decay).sum(-1), (decay**2).sum(-1)
    u, v = ones.sum(-1), decay.sum(-1)
    scale = np.maximum((a * v - b * u) / (a * c - b**2), LEAST_FLOOR)
    floor = np.maximum((u - b * scale) / a, LEAST_FLOOR)
    exponents = np.broadcast_to(EXPONENTS, scale.shape)
    starts = np.stack([np.log(floor), np.log(scale), exponents], axis=-1)
    best = _huber(_residuals(starts, x, y[:, None])).argsort(axis=1)[:, :NUM_STARTS]
    return np.take_along_axis(starts, best[..., None], axis=1)


def _refine(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimise from (P, 3): reweighted least squares, damped as Levenberg and Marquardt do."""
    damping, residuals = np.full(len(theta), 1e-3), _residuals(theta, x, y)
    objective, still = _huber(residuals), np.zeros(len(theta))
    for _ in range(MOST_STEPS):
        decaying = np.exp(theta[:, 1, None] - theta[:, 2, None] * x - y - residuals)
        slopes = np.stack([1 - decaying, decaying, -x * decaying], axis=-1)  # (P, S, 3)
        weighted = slopes / np.maximum(1, np.abs(residuals) / HUBER_DELTA)[..., None]
        square = np.swapaxes(weighted, 1, 2) @ slopes
        diagonal = np.einsum("pii->pi", square)
        diagonal += damping[:, None] * diagonal + 1e-12
        step = np.linalg.solve(square, (weighted * residuals[..., None]).sum(1)[..., None])[..., 0]
        tried = _bounded(theta - step)
        of_tried = _residuals(tried, x, y)
        value = _huber(of_tried)
        is_lower = value < objective
        has_moved = objective - value > 1e-15 + 1e-9 * objective
        still = np.where(has_moved, 0, still + 1)
        theta = np.where(is_lower[:, None], tried, theta)
        residuals = np.where(is_lower[:, None], of_tried, residuals)
        objective = np.where(is_lower, value, objective)
        damping = np.clip(np.where(is_lower, damping / 4, damping * 8), 1e-9, 1e9)
        if (still >= STILL_STEPS).all():
            break
    return theta, objective


def _bounded(theta: np.ndarray) -> np.ndarray:
    """Keep E from falling without end where losses ask for none, and alpha from rising so."""
    floor = np.where(np.isneginf(theta[:, 0]), -np.inf, np.maximum(theta[:, 0], np.log(LEAST_FLOOR)))
    exponent = np.clip(theta[:, 2], -LARGEST_EXPONENT, LARGEST_EXPONENT)
    return np.stack([floor, theta[:, 1], exponent], axis=-1)


def _residuals(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(..., S) log(E + A N^-alpha) - log L."""
    return np.logaddexp(theta[..., 0, None], theta[..., 1, None] - theta[..., 2, None] * x) - y


def _huber(residuals: np.ndarray) -> np.ndarray:
    """Sum over sizes: quadratic below delta, linear above (Huber 1964)."""
    size = np.abs(residuals)
    inside = 0.5 * size**2
    return np.where(size <= HUBER_DELTA, inside, HUBER_DELTA * (size - 0.5 * HUBER_DELTA)).sum(-1)
