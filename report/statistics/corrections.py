"""P-values corrected for having looked at several, and the levels of intervals that agree with them.

None stays None and is not counted. What is shown is what has a corrected p below the level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

PValues = Sequence[float | None]


class Holm:
    """Keeps the chance of any false claim below the level (Holm 1979)."""

    def adjust(self, p_values: PValues) -> list[float | None]:
        """Multiply the smallest p by their number, the next by one less, and so on."""
        ascending = _ascending(p_values)
        corrected: list[float | None] = [None] * len(p_values)
        running = 0.0
        for rank, (p, index) in enumerate(ascending):
            running = max(running, min(1.0, (len(ascending) - rank) * p))
            corrected[index] = running
        return corrected

    def levels(self, p_values: PValues, level: float) -> list[float | None]:
        """Return the two-sided level of each simultaneous interval: the level shared among all (Bonferroni).

        What is not shown has a p that is not below its level, so that its interval holds zero. What is shown
        may have an interval that reaches beyond zero, and is to be cut there.

        Intervals that share it only among what is not shown would agree with Holm's tests, too. But where
        many differences are real and a few of them are missed, they often miss those: what is not shown has
        the smallest estimates.
        """
        num_tests = sum(p is not None for p in p_values)
        return [None if p is None else level / num_tests for p in p_values]


class MaxT:
    """Keeps the chance of any false claim below the level by what comparisons share: a baseline, runs, items.

    Step-down min-p (Westfall and Young 1993, algorithm 2.8; Romano and Wolf 2005): the smallest p is judged
    by how small the smallest of all would be if nothing differed, the next one by the smallest of those that
    are left, and so on. Joint draws of the p-values say how small that is (``statistics.joint_null``).
    Comparisons that say almost the same then cost almost nothing, while Holm's correction reckons with the
    worst case. Where studies of several kinds are drawn, the least favourable one counts.

    Args:
        kinds: Of each kind of study (B, m) two-sided p-values of all comparisons in draws without any
            difference; nan where a draw gives none.
    """

    def __init__(self, *kinds: np.ndarray) -> None:
        # Comparisons first, as each of thousands of corrections of a report walks along them.
        self._kinds = [np.ascontiguousarray(np.where(np.isnan(p), 1.0, p).T) for p in kinds]
        self._critical: dict[tuple[frozenset[int], float], float] = {}

    def adjust(self, p_values: PValues) -> list[float | None]:
        """Correct m p-values; None stays None and is not counted. No p becomes smaller than it was.

        The observed study counts as one draw more, so that no corrected p is below 1 / (B + 1).
        """
        ascending = _ascending(p_values)
        corrected: list[float | None] = [None] * len(p_values)
        largest = np.zeros(len(ascending))
        for null_p in self._kinds:
            largest = np.maximum(largest, _shares_as_small(null_p, ascending))
        running = 0.0
        for (p, index), share in zip(ascending, largest, strict=True):
            running = max(running, float(share), p)
            corrected[index] = running
        return corrected

    def levels(self, p_values: PValues, level: float) -> list[float | None]:
        """Return the two-sided level of each interval: that of the smallest p of all, as ``Holm`` does.

        What is not shown has a p that is not below it. Where the interval of what is shown holds zero, it is
        to be cut there.
        """
        places = frozenset(index for index, p in enumerate(p_values) if p is not None)
        if not places:
            return [None] * len(p_values)
        if (places, level) not in self._critical:
            smallest = [null_p[sorted(places)].min(0) for null_p in self._kinds]
            self._critical[places, level] = min(_critical(of_kind, level) for of_kind in smallest)
        return [None if p is None else self._critical[places, level] for p in p_values]


Correction = Holm | MaxT
"""A way of correcting several p-values together."""


def _shares_as_small(null_p: np.ndarray, ascending: list[tuple[float, int]]) -> list[float]:
    """Return in how many draws the smallest p of the comparisons from each on is no larger than its own.

    Args:
        null_p: (m, B) p-values of draws.
        ascending: Observed p-values in rising order, with their places among the m.
    """
    smallest = np.ones(null_p.shape[1])
    shares: list[float] = []
    for p, index in reversed(ascending):
        np.minimum(smallest, null_p[index], out=smallest)
        shares.append((1 + np.count_nonzero(smallest <= p)) / (1 + len(smallest)))
    return shares[::-1]


def _critical(smallest: np.ndarray, level: float) -> float:
    """Return below which p a step rejects: 0 where so few draws can never reject."""
    most = most_beyond(level, len(smallest))
    return 0.0 if most < 0 else min(level, float(np.partition(smallest, most)[most]))


def most_beyond(level: float, draws: int) -> int:
    """Return how many of so many draws may lie as far out while (1 + them) / (1 + draws) is below a level.

    It is -1 where that is not even of none.
    """
    most = math.ceil(level * (1 + draws) - 1)
    while most >= 0 and not (1 + most) / (1 + draws) < level:
        most -= 1
    return most


def _ascending(p_values: PValues) -> list[tuple[float, int]]:
    return sorted((p, index) for index, p in enumerate(p_values) if p is not None)
