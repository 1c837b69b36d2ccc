"""Comparisons that are corrected together, of which some may be exchanged and corrected again.

A report leaves out each of thousands of runs in turn, so that what the other comparisons come to is looked up
once and only what is exchanged is written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from report.significance.comparison import Comparison
from report.statistics.corrections import Correction, Holm

Members = Mapping[int, Comparison]
"""Comparisons by their place among all."""


class Group:
    """Differences and equivalences that are corrected together.

    Args:
        members: The comparisons.
        correction: Of their differences; equivalences are corrected by Holm.
        level: Of all of them together.
    """

    def __init__(self, members: Members, correction: Correction, level: float) -> None:
        self._correction, self._level = correction, level
        self._p = {place: c.p_sequential for place, c in members.items()}
        self._equivalence = {place: c.p_equivalence_sequential for place, c in members.items()}

    def fields(self, exchanged: Members) -> dict[int, dict[str, Any]]:
        """Return the corrected fields of members that are exchanged for others."""
        own = {place: c for place, c in exchanged.items() if place in self._p}
        if not own:
            return {}
        p_values = self._p | {place: c.p_sequential for place, c in own.items()}
        levels = dict(zip(p_values, self._correction.levels([*p_values.values()], self._level), strict=True))
        corrected = _adjusted(p_values, self._correction)
        equivalence = {place: c.p_equivalence_sequential for place, c in own.items()}
        equivalent = _adjusted(self._equivalence | equivalence, Holm())
        return {
            place: {
                "p_corrected": corrected[place],
                "level_simultaneous": (level := levels[place]) and c.look.nominal(level),
                "p_equivalence_holm": equivalent[place],
            }
            for place, c in own.items()
        }


def corrected_in(groups: Iterable[Group], exchanged: Members) -> dict[int, Comparison]:
    """Correct comparisons within their groups, among those that stay."""
    fields: dict[int, dict[str, Any]] = {place: {} for place in exchanged}
    for group in groups:
        for place, found in group.fields(exchanged).items():
            fields[place] |= found
    return {place: replace(c, **fields[place]) for place, c in exchanged.items()}


def in_groups(
    comparisons: Sequence[Comparison], key: Callable[[Comparison], Hashable]
) -> list[dict[int, Comparison]]:
    """Return the comparisons of each group by their place among all."""
    groups: dict[Hashable, dict[int, Comparison]] = {}
    for place, comparison in enumerate(comparisons):
        groups.setdefault(key(comparison), {})[place] = comparison
    return list(groups.values())


def _adjusted(p_values: Mapping[int, float | None], correction: Correction) -> dict[int, float | None]:
    return dict(zip(p_values, correction.adjust([*p_values.values()]), strict=True))
