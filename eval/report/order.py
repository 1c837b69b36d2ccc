"""In which order names stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eval.significance.factor import benchmark_of
from eval.suites import SUITES


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
