"""When a word is learned: the place at which a fitted curve of its learning is half way.

The curve is f(x) = a / (1 + exp(-b (x - c))) + d. A child's is of the share of children who know a word by
their age in months, a model's of minus the surprisal by log10(step + 1) (Chang and Bergen 2022,
https://doi.org/10.1162/tacl_a_00444). Starting values, bounds and limits are those of the BabyLM 2025
pipeline.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeWarning, curve_fit

MOST_TRIALS = 1000
FEWEST_POINTS = 3


def age_of_child(ages: ArrayLike, shares: ArrayLike) -> float | None:
    """Return the age at which half of the children know a word; None where no curve says it.

    Args:
        ages: In months, ascending.
        shares: From 0 to 1; NaN where nothing is known.
    """
    x, y = _known(ages, shares)
    if len(x) < FEWEST_POINTS:
        return None
    bounds = ([0, 0, x[0], -0.5], [2, 1, x[-1], 0.5])
    found = _place(x, y, [1, 0.1, x.mean(), 0], 0.5, bounds=bounds)
    return None if found is None or not x[0] <= found <= x[-1] else found


def age_of_model(steps: ArrayLike, surprisals: ArrayLike, chance: float) -> float | None:
    """Return log10(step + 1) at which a word's surprisal is half way from chance to its lowest.

    Args:
        steps: Of the surprisals, ascending; a word in several contexts has several at a step.
        surprisals: NaN where nothing is known.
        chance: The surprisal before anything is learned.

    Returns:
        None where no curve says it, or where it lies before the first or behind the last step.
    """
    x, y = _known(steps, surprisals)
    if len(x) < FEWEST_POINTS:
        return None
    half = (chance + y.min()) / 2
    first, last = math.log10(x[0] + 1), math.log10(x[-1] + 1)
    x, y = np.log10(x + 1), -y
    found = _place(x, y, [y.max() - y.min(), 1, x.mean(), y.min()], -half)
    return None if found is None or not first <= found <= last else found


def _known(places: ArrayLike, values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(places, dtype=np.float64), np.asarray(values, dtype=np.float64)
    return x[~np.isnan(y)], y[~np.isnan(y)]


def _curve(x: np.ndarray, a: float, b: float, c: float, d: float) -> np.ndarray:
    return a / (1 + np.exp(-b * (x - c))) + d


def _place(x: np.ndarray, y: np.ndarray, start: Sequence[float], height: float, **how: Any) -> float | None:
    """Fit the curve; return where it reaches a height, or None where it never does, or falls."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", OptimizeWarning)
            a, b, c, d = curve_fit(_curve, x, y, p0=start, maxfev=MOST_TRIALS, **how)[0]
    except (RuntimeError, ValueError, TypeError):  # no fit is found, or there are fewer points than numbers
        return None
    if a <= 0 or b <= 0 or not d < height < a + d:
        return None
    return float(c - math.log(a / (height - d) - 1) / b)
