"""How large a difference is beside the spread over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eval.significance.statistics.welch import NO_SPREAD


def hedges_g(estimate: float, cells: Sequence[np.ndarray]) -> float | None:
    """Standardise by the spread within cells, with Hedges' (1981) small-sample factor 1 - 3/(4 df - 1).

    Args:
        estimate: The difference.
        cells: The runs of every cell it is made of.

    Returns:
        None where no cell has any spread.
    """
    df = sum(len(cell) - 1 for cell in cells)
    if df == 0:
        return None
    pooled = math.sqrt(sum(((cell - cell.mean()) ** 2).sum() for cell in cells) / df)
    return None if pooled < NO_SPREAD else estimate / pooled * (1 - 3 / (4 * df - 1))


def probability_of_superiority(
    cells: Sequence[np.ndarray], weights: Sequence[float], strata: Sequence[str]
) -> float:
    """Estimate P(A > B) + P(A = B)/2 for a run of the first group and one of the second, of one family.

    That is the Mann-Whitney U over the number of pairs (Vargha and Delaney 2000), averaged over pairs of
    cells of one family with the weights of the contrast.

    Args:
        cells: The runs of every cell.
        weights: One a cell; positive in the first group, negative in the second.
        strata: The family of every cell.
    """
    total = weight_sum = 0.0
    for plus, weight_plus, family in zip(cells, weights, strata, strict=True):
        for minus, weight_minus, other in zip(cells, weights, strata, strict=True):
            if family == other and weight_plus > 0 > weight_minus:
                difference = plus[:, None] - minus[None, :]
                share = float(((difference > 0) + 0.5 * (difference == 0)).mean())
                total += weight_plus * -weight_minus * share
                weight_sum += weight_plus * -weight_minus
    return total / weight_sum
