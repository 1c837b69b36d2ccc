"""Two one-sided tests: whether a difference is smaller than a margin (Schuirmann 1987).

Where a part of the standard error is a shift, as what the choice of a learning rate may have missed, each
side is tested at half the level. A shift b whose square is added to the variance leaves a two-sided test at
its level, but not a one-sided one: P(Z + b > z sqrt(1 + b^2)) is up to 9.6% for the z of 5%, and at most 4.6%
for that of 2.5%.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special


def equivalence_p(
    estimate: ArrayLike,
    standard_error: ArrayLike,
    df: ArrayLike,
    margin: float,
    regret: ArrayLike = 0.0,
) -> np.ndarray:
    """Return the larger p of the tests that the difference is above -margin and below +margin.

    Args:
        estimate: (...) differences.
        standard_error: (...) of them, above zero.
        df: (...) degrees of freedom of the standard errors.
        margin: The largest difference that still counts as none, in the unit of the estimate.
        regret: (...) root of the part of the squared standard errors that is a shift.
    """
    p = special.stdtr(df, -(margin - np.abs(estimate)) / np.asarray(standard_error))
    return np.where(np.asarray(regret) > 0, np.minimum(1.0, 2 * p), p)


def one_sided_level(level: float, regret: float) -> float:
    """Return the level at which each side is tested."""
    return level / 2 if regret > 0 else level


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
