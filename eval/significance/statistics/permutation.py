"""Permutation tests of a contrast: runs are exchanged between arms of one family, or pairs change sign.

The statistic is Welch's t, so that unequal variances distort the test less (Janssen 1997). All arrangements
are counted. Where they are too many nothing is said: many runs need the test least, and a share of drawn ones
would hang on the draw. Few runs have few arrangements, so no p can be below a floor, which belongs beside it.

Shapes: A arrangements, N runs of a family.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from eval.significance.statistics.welch import NO_SPREAD

MAX_EXACT = 1_000_000
MAX_EXACT_PER_FAMILY = 20_000
TIE = 1e-9


class Permutation(NamedTuple):
    """A two-sided p and the smallest that these numbers of runs allow."""

    p: float
    floor: float


class _Arranged(NamedTuple):
    """What each arrangement of one family adds to the estimate and to its variance; the observed is first."""

    estimates: np.ndarray
    variances: np.ndarray


def permutation_test(
    arms: Sequence[np.ndarray], weights: Sequence[float], strata: Sequence[Hashable]
) -> Permutation | None:
    """Test whether runs could change places between the arms of a family.

    Args:
        arms: The runs of every arm, at least 2 each.
        weights: One an arm.
        strata: The family of every arm.

    Returns:
        None where there are more arrangements than can be counted.
    """
    families = {
        name: [(c, w) for c, w, s in zip(arms, weights, strata, strict=True) if s == name]
        for name in dict.fromkeys(strata)
    }
    sizes = [tuple(len(arm) for arm, _ in group) for group in families.values()]
    if not _can_be_counted([_num_arrangements(of_family) for of_family in sizes]):
        return None
    arranged = []
    for group, of_family in zip(families.values(), sizes, strict=True):
        pooled = np.concatenate([arm for arm, _ in group])
        arranged.append(_arrange(pooled[_all_orders(of_family)], of_family, [w for _, w in group]))
    return _two_sided(arranged)


def sign_flip_test(differences: Sequence[np.ndarray], weights: Sequence[float]) -> Permutation | None:
    """Test whether pairs could have any sign.

    Args:
        differences: For every family its differences of pairs, at least 2.
        weights: One a family.

    Returns:
        None where there are more signs than can be counted.
    """
    if not _can_be_counted([2 ** len(x) for x in differences]):
        return None
    arranged = [
        _arrange(_all_signs(len(x)) * x, (len(x),), [weight])
        for x, weight in zip(differences, weights, strict=True)
    ]
    return _two_sided(arranged)


def _can_be_counted(counts: Sequence[int]) -> bool:
    return max(counts) <= MAX_EXACT_PER_FAMILY and math.prod(counts) <= MAX_EXACT


def _arrange(scores: np.ndarray, sizes: Sequence[int], weights: Sequence[float]) -> _Arranged:
    """Split the columns of (A, N) scores into arms."""
    ends = np.cumsum(sizes)
    parts = [scores[:, end - size : end] for end, size in zip(ends, sizes, strict=True)]
    estimates = sum(w * part.mean(1) for w, part in zip(weights, parts, strict=True))
    variances = sum(
        w**2 * part.var(1, ddof=1) / part.shape[1] for w, part in zip(weights, parts, strict=True)
    )
    return _Arranged(np.asarray(estimates), np.asarray(variances))


def _two_sided(arranged: Sequence[_Arranged]) -> Permutation:
    """Combine families: every arrangement of one with every one of the others."""
    estimates, variances = arranged[0]
    for more in arranged[1:]:
        estimates = np.add.outer(estimates, more.estimates).ravel()
        variances = np.add.outer(variances, more.variances).ravel()
    size = np.abs(estimates)
    size[size < NO_SPREAD] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.nan_to_num(size / np.sqrt(np.where(variances < NO_SPREAD**2, 0.0, variances)), posinf=np.inf)
    share, floor = (float((t >= size * (1 - TIE)).mean()) for size in (t[0], t.max()))
    return Permutation(share, floor)


def _num_arrangements(sizes: Sequence[int]) -> int:
    return math.factorial(sum(sizes)) // math.prod(map(math.factorial, sizes))


@lru_cache(maxsize=16)
def _all_orders(sizes: tuple[int, ...]) -> np.ndarray:
    """Every way to deal N runs to arms of these sizes, as (A, N) indices; the identity first."""
    total = sum(sizes)
    orders = [((), tuple(range(total)))]
    for size in sizes:
        orders = [
            (dealt + chosen, tuple(sorted(set(left) - set(chosen))))
            for dealt, left in orders
            for chosen in combinations(left, size)
        ]
    return np.array([dealt for dealt, _ in orders])


def _all_signs(num_pairs: int) -> np.ndarray:
    return 1 - 2 * ((np.arange(2**num_pairs)[:, None] >> np.arange(num_pairs)) & 1)
