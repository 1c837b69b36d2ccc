"""Names as a reader writes them, in the order expected, and as a file can carry them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from base import families
from eval.significance.factor import benchmark_of, split_family, stratum
from eval.suites import SUITES


def family_label(label: str | None) -> str:
    """Name a family as a reader writes it, with its FFN variant if any; None is the average over families."""
    if label is None:
        return "averaged"
    family, variant = split_family(label)
    return stratum(families.family_label(family), variant)


def file_name(kind: str, benchmark: str) -> str:
    """Name a figure's file, whatever characters a table puts into a benchmark's name."""
    return f"{kind}-{re.sub(r'[^A-Za-z0-9._-]+', '-', benchmark)}"


def ordered(names: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """Sort names by their place in ``wanted``, the unlisted ones after them by name."""
    places = {name: place for place, name in enumerate(wanted)}
    return sorted(map(str, names), key=lambda name: (places.get(name, len(places)), name))


def ordered_benchmarks(names: Iterable[str], planned: Sequence[str]) -> tuple[str, ...]:
    """Sort benchmarks as ``SUITES`` does, any other by name, and the heads of one as the study names them."""
    places = {name: place for place, name in enumerate(SUITES)}
    own_places = {name: place for place, name in enumerate(planned)}

    def key(name: str) -> tuple[int, str, int, str]:
        benchmark = benchmark_of(name)
        return places.get(benchmark, len(places)), benchmark, own_places.get(name, len(planned)), name

    return tuple(sorted(map(str, names), key=key))
