"""A t-test that may be looked at after every run and stopped at any time.

The anytime-valid t-test of linear models (Lindon, Ham, Tingley and Bojinov 2022, arXiv 2210.08589). Under the
null hypothesis the Bayes factor of a normal prior on the standardised difference, with the right Haar prior
on mean and variance, is a nonnegative martingale that begins at 1. So it exceeds 1/level at any time in at
most ``level`` of studies (Ville 1939). With r = g / (g + n), nu degrees of freedom and the t statistic,

    G = sqrt(r) * ((1 + t^2/nu) / (1 + r t^2/nu))^((nu + 1) / 2)

and 1/G is the sequential p-value. It is exact for arms of equal variance that grow together. For Welch's t
with Satterthwaite's degrees of freedom simulation shows that it holds (docs/statistics.md, "Looks").
"""

from __future__ import annotations

import numpy as np
from scipy import special

MIXTURE = 0.3
"""g: how many runs in every arm weigh as much as the prior. Chosen once, for every study: at 5% the interval
is then the narrowest near 5 runs in every arm of one family, and within 3.5% of it from 4 to 10."""


def anytime_p(p: float, num_runs: int, df: float, mixture: float = MIXTURE) -> float:
    """Return the p-value that may be looked at after every run.

    Args:
        p: Two-sided, of the t-test at this number of runs.
        num_runs: In every arm.
        df: Degrees of freedom of the test.
        mixture: The prior's weight, in runs.
    """
    share = mixture / (mixture + num_runs)
    ratio = (_t(p, df) ** 2) / df
    # Far out the quotient is one over the share.
    inside = np.log(share) if np.isinf(ratio) else np.log1p(share * ratio) - np.log1p(ratio)
    log_p = -0.5 * np.log(share) + (df + 1) / 2 * inside
    return float(min(1.0, np.exp(log_p)))


def anytime_level(level: float, num_runs: int, df: float, mixture: float = MIXTURE) -> float:
    """Return the two-sided level of the t-test at this number of runs, the inverse of ``anytime_p``.

    Args:
        level: Of all looks together.
        num_runs: In every arm.
        df: Degrees of freedom.
        mixture: The prior's weight, in runs.

    Returns:
        The level; 0 where so few runs reject nothing.
    """
    share = mixture / (mixture + num_runs)
    quotient = np.exp((-2 * np.log(level) - np.log(share)) / (df + 1)) if level > 0 else np.inf
    if quotient * share >= 1:
        return 0.0
    t = np.sqrt(df * (quotient - 1) / (1 - quotient * share))
    return float(2 * special.stdtr(df, -t))


def _t(p: float, df: float) -> float:
    return float(-special.stdtrit(df, p / 2)) if p > 0 else np.inf
