"""How large a difference is beside the spread over seeds."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np

from eval.significance.statistics.welch import NO_SPREAD


def hedges_g(estimate: float, arms: Sequence[np.ndarray]) -> float | None:
    """Standardise by the spread within arms, with Hedges' (1981) small-sample factor 1 - 3/(4 df - 1).

    Args:
        estimate: The difference.
        arms: The runs of every arm it is made of.

    Returns:
        None where no arm has any spread.
    """
    df = sum(len(arm) - 1 for arm in arms)
    if df == 0:
        return None
    pooled = math.sqrt(sum(((arm - arm.mean()) ** 2).sum() for arm in arms) / df)
    return None if pooled < NO_SPREAD else estimate / pooled * (1 - 3 / (4 * df - 1))


def probability_of_superiority(
    arms: Sequence[np.ndarray], weights: Sequence[float], strata: Sequence[Hashable]
) -> float:
    """Estimate P(A > B) + P(A = B)/2 for a run of the first group and one of the second, of one family.

    That is the Mann-Whitney U over the number of pairs (Vargha and Delaney 2000), averaged over pairs of
    arms of one family with the weights of the contrast.

    Args:
        arms: The runs of every arm.
        weights: One an arm; positive in the first group, negative in the second.
        strata: The family of every arm.
    """
    total = weight_sum = 0.0
    for plus, weight_plus, family in zip(arms, weights, strata, strict=True):
        for minus, weight_minus, other in zip(arms, weights, strata, strict=True):
            if family == other and weight_plus > 0 > weight_minus:
                difference = plus[:, None] - minus[None, :]
                share = float(((difference > 0) + 0.5 * (difference == 0)).mean())
                total += weight_plus * -weight_minus * share
                weight_sum += weight_plus * -weight_minus
    return total / weight_sum
