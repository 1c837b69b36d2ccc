"""Two one-sided tests: whether a difference is smaller than a margin (Schuirmann 1987)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special


def equivalence_p(estimate: ArrayLike, standard_error: ArrayLike, df: ArrayLike, margin: float) -> np.ndarray:
    """Return the larger p of the tests that the difference is above -margin and below +margin.

    Args:
        estimate: (...) differences.
        standard_error: (...) of them, above zero.
        df: (...) degrees of freedom of the standard errors.
        margin: The largest difference that still counts as none, in the unit of the estimate.
    """
    return special.stdtr(df, -(margin - np.abs(estimate)) / np.asarray(standard_error))


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
