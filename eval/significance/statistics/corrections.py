"""P-values corrected for having looked at several, and the levels of intervals that agree with them.

None stays None and is not counted. What is shown is what has a corrected p below the level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

PValues = Sequence[float | None]


class Correction(Protocol):
    """A way of correcting several p-values together."""

    def adjust(self, p_values: PValues) -> list[float | None]:
        """Return corrected p-values."""
        ...

    def levels(self, p_values: PValues, level: float) -> list[float | None]:
        """Return the two-sided level of each interval.

        What is not shown has a p that is not below its level, so that its interval holds zero. What is shown
        may have an interval that reaches beyond zero, and is to be cut there.
        """
        ...


class Holm:
    """Keeps the chance of any false claim below the level (Holm 1979)."""

    def adjust(self, p_values: PValues) -> list[float | None]:
        """Multiply the smallest p by their number, the next by one less, and so on."""
        known = _ascending(p_values)
        corrected: list[float | None] = [None] * len(p_values)
        running = 0.0
        for rank, (p, index) in enumerate(known):
            running = max(running, min(1.0, (len(known) - rank) * p))
            corrected[index] = running
        return corrected

    def levels(self, p_values: PValues, level: float) -> list[float | None]:
        """Share the level among all (Bonferroni): so all intervals hold together, whatever is true.

        Intervals that share it only among what is not shown would agree with Holm's tests, too. But where
        many differences are real and a few of them are missed, they often miss those: what is not shown has
        the smallest estimates.
        """
        num_tests = sum(p is not None for p in p_values)
        return [None if p is None else level / num_tests for p in p_values]


class BenjaminiHochberg:
    """Keeps the expected share of false claims among all claims below the level (1995)."""

    def adjust(self, p_values: PValues) -> list[float | None]:
        """Multiply every p by their number over its rank."""
        known = _ascending(p_values)
        corrected: list[float | None] = [None] * len(p_values)
        running = 1.0
        for rank, (p, index) in reversed(list(enumerate(known, start=1))):
            running = min(running, p * len(known) / rank)
            corrected[index] = running
        return corrected

    def levels(self, p_values: PValues, level: float) -> list[float | None]:
        """Return level x shown / all: the false coverage rate of those shown (Benjamini, Yekutieli 2005)."""
        corrected = self.adjust(p_values)
        known = [p for p in corrected if p is not None]
        num_shown = sum(p < level for p in known)
        return [None if p is None else level * max(1, num_shown) / len(known) for p in corrected]


def _ascending(p_values: PValues) -> list[tuple[float, int]]:
    return sorted((p, index) for index, p in enumerate(p_values) if p is not None)
