"""Two models on the same items: what their difference would be on other items like these.

The items are the sample; nothing is said of another training of either model. Items that belong together,
such as those of one paradigm, are no independent ones: their differences are added up within a cluster before
their spread is taken (Liang and Zeger 1986; for language models Miller 2024, arXiv 2411.00640, section 2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

CONFIDENCE = 0.95
POWER = 0.8
ROUNDING = 1e-12
"""A spread below this share of the difference is none."""


class PairedItems(NamedTuple):
    """The difference between two models on the same items, first minus second; nan where not estimable."""

    estimate: float
    """Weighted mean of the items' differences."""
    standard_error: float
    """Over clusters."""
    df: int
    """Clusters less one."""
    p: float
    low: float
    high: float
    detectable: float
    """The smallest true difference that would be found with 80% power at this many clusters."""
    standard_error_items: float
    """As if items were independent; for comparison."""


class McNemar(NamedTuple):
    """Items that only one of two models has right, and whether the two numbers differ (McNemar 1947)."""

    only_first: int
    only_second: int
    p_exact: float
    """Two-sided, binomial."""
    p_corrected: float
    """Of chi-squared with Edwards' correction of 1; nan without any such item."""


def compare_paired(
    first: np.ndarray,
    second: np.ndarray,
    clusters: np.ndarray,
    weights: np.ndarray | None = None,
    confidence: float = CONFIDENCE,
) -> PairedItems:
    """Compare two models on the same items.

    Where every cluster differs by the same there is no spread to tell an interval from, and t would claim all
    of any two items: p is then the exact one of flipping the signs of clusters, 2 / 2^G.

    With equal weights this is least squares of the differences on a constant, with standard errors clustered
    and times G / (G - 1), and Student's t with G - 1 degrees of freedom; with other weights it is weighted
    least squares.

    Args:
        first: (I,) scores of one model.
        second: (I,) scores of the other.
        clusters: (I,) of each item, any values; items that are clusters of their own are independent.
        weights: (I,) above 0; None takes all alike.
        confidence: Level of the two-sided interval.
    """
    differences = np.asarray(first, float) - np.asarray(second, float)
    shares = np.ones(len(differences)) if weights is None else np.asarray(weights, float)
    shares = shares / shares.sum()
    estimate = float(shares @ differences)
    _, codes = np.unique(np.asarray(clusters), return_inverse=True)
    error = _standard_error(shares * (differences - estimate), codes)
    of_items = _standard_error(shares * (differences - estimate), np.arange(len(differences)))
    df = int(codes.max())
    if df < 1:
        return PairedItems(estimate, math.nan, df, math.nan, math.nan, math.nan, math.nan, of_items)
    if estimate != 0 and error <= ROUNDING * abs(estimate):
        return PairedItems(estimate, 0.0, df, 0.5**df, math.nan, math.nan, math.nan, of_items)
    quantile = float(special.stdtrit(df, (1 + confidence) / 2))
    p = 1.0 if estimate == 0 else 2 * float(special.stdtr(df, -abs(estimate) / error))
    reach = quantile * error
    detectable = (quantile + float(special.stdtrit(df, POWER))) * error
    return PairedItems(estimate, error, df, p, estimate - reach, estimate + reach, detectable, of_items)


def _standard_error(parts: np.ndarray, codes: np.ndarray) -> float:
    """Return the standard error of a sum of parts that are added up within clusters first."""
    num_clusters = int(codes.max()) + 1
    if num_clusters < 2:
        return math.nan
    sums = np.bincount(codes, parts)
    return math.sqrt(num_clusters / (num_clusters - 1) * float(sums @ sums))


def mcnemar(first: np.ndarray, second: np.ndarray) -> McNemar:
    """Test whether as many items are right for only one model as for only the other.

    Args:
        first: (I,) whether one model has each item right.
        second: (I,) whether the other has.
    """
    first, second = np.asarray(first, bool), np.asarray(second, bool)
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    discordant = only_first + only_second
    exact = min(1.0, 2 * float(special.bdtr(min(only_first, only_second), discordant, 0.5)))
    if not discordant:
        return McNemar(0, 0, 1.0, math.nan)
    statistic = (abs(only_first - only_second) - 1) ** 2 / discordant
    return McNemar(only_first, only_second, exact, float(special.chdtrc(1, statistic)))
