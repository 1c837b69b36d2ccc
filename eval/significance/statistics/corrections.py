"""P-values corrected for having looked at several; None stays None and is not counted."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Keep the chance of any false claim below the level (Holm 1979)."""
    known = _ascending(p_values)
    corrected: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, (p, index) in enumerate(known):
        running = max(running, min(1.0, (len(known) - rank) * p))
        corrected[index] = running
    return corrected


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Keep the expected share of false claims among all claims below the level (Benjamini, Hochberg 1995)."""
    known = _ascending(p_values)
    corrected: list[float | None] = [None] * len(p_values)
    running = 1.0
    for rank, (p, index) in reversed(list(enumerate(known, start=1))):
        running = min(running, p * len(known) / rank)
        corrected[index] = running
    return corrected


def _ascending(p_values: Sequence[float | None]) -> list[tuple[float, int]]:
    return sorted((p, index) for index, p in enumerate(p_values) if p is not None)
