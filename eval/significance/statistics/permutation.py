"""Permutation tests of a contrast: runs are exchanged between arms of one family, or pairs change sign.

The statistic is Welch's t, so that unequal variances distort the test less (Janssen 1997). Where there are
few enough arrangements all are counted, else some are drawn. Few runs have few arrangements, so no p can be
below a floor, which belongs beside it.

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

DRAWN = 9_999
"""Arrangements drawn where all would be too many; with the observed one they make 10,000."""
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
    arms: Sequence[np.ndarray], weights: Sequence[float], strata: Sequence[Hashable], rng: np.random.Generator
) -> Permutation:
    """Test whether runs could change places between the arms of a family.

    Args:
        arms: The runs of every arm, at least 2 each.
        weights: One an arm.
        strata: The family of every arm.
        rng: Draws arrangements where not all are counted.
    """
    families = {
        name: [(c, w) for c, w, s in zip(arms, weights, strata, strict=True) if s == name]
        for name in dict.fromkeys(strata)
    }
    sizes = [tuple(len(arm) for arm, _ in group) for group in families.values()]
    is_exact = _is_exact([_num_arrangements(of_family) for of_family in sizes])
    arranged = []
    for group, of_family in zip(families.values(), sizes, strict=True):
        pooled = np.concatenate([arm for arm, _ in group])
        order = _all_orders(of_family) if is_exact else _drawn_orders(len(pooled), rng)
        arranged.append(_arrange(pooled[order], of_family, [w for _, w in group]))
    return _two_sided(arranged, is_exact)


def sign_flip_test(
    differences: Sequence[np.ndarray], weights: Sequence[float], rng: np.random.Generator
) -> Permutation:
    """Test whether pairs could have any sign.

    Args:
        differences: For every family its differences of pairs, at least 2.
        weights: One a family.
        rng: Draws signs where not all are counted.
    """
    is_exact = _is_exact([2 ** len(x) for x in differences])
    arranged = []
    for of_family, weight in zip(differences, weights, strict=True):
        signs = _all_signs(len(of_family)) if is_exact else _drawn_signs(len(of_family), rng)
        arranged.append(_arrange(signs * of_family, (len(of_family),), [weight]))
    return _two_sided(arranged, is_exact)


def _is_exact(counts: Sequence[int]) -> bool:
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


def _two_sided(arranged: Sequence[_Arranged], is_exact: bool) -> Permutation:
    """Combine families: every arrangement of one with every one of the others, or drawn ones in step."""
    estimates, variances = arranged[0]
    for more in arranged[1:]:
        if is_exact:
            estimates = np.add.outer(estimates, more.estimates).ravel()
            variances = np.add.outer(variances, more.variances).ravel()
        else:
            estimates, variances = estimates + more.estimates, variances + more.variances
    size = np.abs(estimates)
    size[size < NO_SPREAD] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.nan_to_num(size / np.sqrt(np.where(variances < NO_SPREAD**2, 0.0, variances)), posinf=np.inf)
    share = float((t >= t[0] * (1 - TIE)).mean())
    # A drawn arrangement may lie further out than any drawn so far.
    floor = float((t >= t.max() * (1 - TIE)).mean()) if is_exact else 1 / len(t)
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


def _drawn_orders(total: int, rng: np.random.Generator) -> np.ndarray:
    identity = np.arange(total)
    return np.vstack([identity, rng.permuted(np.tile(identity, (DRAWN, 1)), axis=1)])


def _all_signs(num_pairs: int) -> np.ndarray:
    return 1 - 2 * ((np.arange(2**num_pairs)[:, None] >> np.arange(num_pairs)) & 1)


def _drawn_signs(num_pairs: int, rng: np.random.Generator) -> np.ndarray:
    return np.vstack([np.ones(num_pairs, int), rng.choice([-1, 1], size=(DRAWN, num_pairs))])
