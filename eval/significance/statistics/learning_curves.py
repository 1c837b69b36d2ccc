"""Learning curves of several runs: their mean, their difference, and where they fall below a loss.

Shapes: n runs of an arm, K evaluations of a run, G places of an axis that all runs share; any leading
dimensions are studies of their own. An axis counts tokens.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from eval.significance.statistics.welch import CONFIDENCE, Welch, welch


def resample(x: ArrayLike, losses: ArrayLike, places: ArrayLike) -> np.ndarray:
    """Read off curves between their evaluations.

    Piecewise cubic, in the logarithm of ``x``, without new maxima or minima (Fritsch and Butland 1984). A run
    that has ended keeps its last loss.

    Args:
        x: (K,) ascending places of the evaluations, at least 2, above zero.
        losses: (..., K) held-out losses.
        places: (G,) places not before the first of ``x``.

    Returns:
        (..., G) losses.
    """
    x, places = np.asarray(x, dtype=float), np.asarray(places, dtype=float)
    curve = PchipInterpolator(np.log(x), np.asarray(losses, dtype=float), axis=-1, extrapolate=False)
    return curve(np.log(np.clip(places, None, x[-1])))


def mean_curve(losses: ArrayLike, confidence: float = CONFIDENCE) -> Welch:
    """Average runs at every place, with the t interval of each mean.

    Args:
        losses: (..., n, G); of a single run the interval is nan.
        confidence: Level of each interval by itself, not of all together.

    Returns:
        Fields of shape (..., G).
    """
    means, variances, count = _moments(losses)
    return welch(means[..., None], variances[..., None], [count], [1.0], confidence)


def difference_curve(variant: ArrayLike, baseline: ArrayLike, confidence: float = CONFIDENCE) -> Welch:
    """Subtract the baseline's mean from the variant's at every place, with Welch's interval.

    Args:
        variant: (..., n, G) losses; a single run gives nan intervals.
        baseline: (..., m, G) losses at the same places; G may be 1 for one loss a run.
        confidence: Level of each interval by itself, not of all together.

    Returns:
        Fields of shape (..., G).
    """
    arms = [_moments(variant), _moments(baseline)]
    means, variances = (np.stack(np.broadcast_arrays(*(arm[i] for arm in arms)), -1) for i in (0, 1))
    return welch(means, variances, [count for _, _, count in arms], [1.0, -1.0], confidence)


def first_below(places: ArrayLike, losses: ArrayLike, threshold: float) -> np.ndarray:
    """Return where curves first are at or below a loss; between two places, in the logarithm of the place.

    Args:
        places: (G,) ascending, above zero.
        losses: (..., G) losses there.
        threshold: The loss.

    Returns:
        (...) places; the first of all where a curve begins below, nan where it stays above.
    """
    axis, excess = np.asarray(places, dtype=float), np.asarray(losses, dtype=float) - threshold
    is_below = excess <= 0
    after = is_below.argmax(-1)
    before = np.maximum(after - 1, 0)
    upper, lower = (np.take_along_axis(excess, i[..., None], -1)[..., 0] for i in (before, after))
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(after > 0, upper / (upper - lower), 0.0)
    place = axis[before] * (axis[after] / axis[before]) ** share
    return np.where(is_below.any(-1), place, np.nan)


def _moments(losses: ArrayLike) -> tuple[np.ndarray, np.ndarray, int]:
    """Mean and variance over runs, (..., G) each, and n; the variance of a single run is nan."""
    losses = np.asarray(losses, dtype=float)
    count = losses.shape[-2]
    means = losses.mean(-2)
    return means, losses.var(-2, ddof=1) if count > 1 else np.full_like(means, np.nan), count
