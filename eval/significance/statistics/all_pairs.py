"""Every pair of arms compared, and the arms put into groups that cannot be told apart.

Welch's test of each pair, corrected over all pairs by Holm. The studentized range with Welch's degrees of
freedom (Games and Howell 1976) is sharper and does not hold its level here: among 40 equal arms of five runs
it finds a difference in 17% of studies, these tests in 2% (``benchmarks/ranking_error_rates.py``).

Shapes: K arms, P = K (K - 1) / 2 pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from eval.significance.statistics.corrections import Holm
from eval.significance.statistics.welch import NO_SPREAD, welch


def told_apart(
    means: ArrayLike,
    variances: ArrayLike,
    counts: ArrayLike,
    level: float,
    added: ArrayLike = 0.0,
    added_df: ArrayLike = np.inf,
) -> np.ndarray:
    """Say which arms are shown to differ; the chance of any false one among all pairs is at most the level.

    That is so of normal runs, also of unlike spreads, and of skewed ones whose spreads and skew are alike. Of
    skewed runs whose spreads or skew differ it is more, and the more so the more arms (docs/error-rates.md).

    Args:
        means: (K,) of the runs of each arm.
        variances: (K,) unbiased; of two arms without any spread nothing is shown.
        counts: (K,) runs, at least 2.
        level: Of all pairs together.
        added: (K,) further variance of the means, as that of a tuned rate.
        added_df: (K,) its degrees of freedom.

    Returns:
        (K, K) symmetric, true where two arms differ.
    """
    count = len(np.asarray(means))
    first, second = np.triu_indices(count, 1)
    pairs = np.stack([first, second], -1)
    of_pairs = [
        np.broadcast_to(np.asarray(x, dtype=float), count)[pairs]
        for x in (means, variances, counts, added, added_df)
    ]
    mean, variance, runs, further, further_df = of_pairs
    found = welch(mean, variance, runs, (1.0, -1.0), added=further, added_df=further_df)
    errors = zip(found.p, found.standard_error, strict=True)
    corrected = Holm().adjust([float(p) if error > NO_SPREAD else None for p, error in errors])
    shown = np.zeros((count, count), dtype=bool)
    shown[first, second] = [p is not None and p < level for p in corrected]
    return shown | shown.T


def groups(differ: np.ndarray) -> list[list[int]]:
    """Put arms into groups within which no two are told apart (Piepho 2004: insert, absorb and sweep).

    Args:
        differ: (K, K) of ``told_apart``, its arms in the order in which they are to be read.

    Returns:
        Members of each group in their order, groups by their first members; every arm is in one at least,
        and two arms share a group exactly where they are not told apart. No arm is in a group in vain:
        without it some pair that is not told apart would share none.
    """
    found = [frozenset(range(len(differ)))]
    for one, other in zip(*np.nonzero(np.triu(differ)), strict=True):
        both = frozenset((one, other))
        parts = [part for group in found for part in (_parts(group, both) if both <= group else [group])]
        found = _without_parts(parts)
    return sorted(sorted(group) for group in _swept(found, len(differ)))


def _swept(found: Sequence[frozenset[int]], count: int) -> list[set[int]]:
    """Take arms out of groups that are not needed for any pair, from what stands last.

    Of 0 1 2, 1 2 3 and 2 3 4 the middle one becomes 1 3: its 2 shares the first with 1 and the last with 3.
    """
    kept = [set(group) for group in sorted(found, key=sorted)]
    # Of each pair, and on the diagonal of each arm, how many groups have it.
    shared = np.zeros((count, count), dtype=int)
    for group in kept:
        shared[np.ix_(sorted(group), sorted(group))] += 1
    for group in reversed(kept):
        for arm in sorted(group, reverse=True):
            members = sorted(group)
            if (shared[arm, members] > 1).all():
                shared[arm, members] -= 1
                shared[members, arm] -= 1
                shared[arm, arm] += 1  # was taken twice
                group.remove(arm)
    return [group for group in kept if group]


def _parts(group: frozenset[int], both: frozenset[int]) -> list[frozenset[int]]:
    return [group - {one} for one in sorted(both)]


def _without_parts(sets: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Leave out what is contained in another."""
    different = list(dict.fromkeys(sets))
    return [one for one in different if not any(one < other for other in different)]


def letter(number: int) -> str:
    """Name a group: a to z, then aa, ab, ..."""
    return chr(ord("a") + number) if number < 26 else letter(number // 26 - 1) + letter(number % 26)
