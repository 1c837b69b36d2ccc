"""Names as a reader writes them, in the order expected, and as a file can carry them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from base import families
from report.significance.axes import SIZE, TOKENS, Benchmark, Family, Setting
from scores.suites import HELD_OUT, SUITES

Name = TypeVar("Name")


def family_label(family: Family | None) -> str:
    """Name a family or a setting as a reader writes it; None is the average over all of them."""
    if family is None:
        return "averaged"
    if isinstance(family, Setting):
        return family.written("" if family.is_of_only_family else families.family_label(family.family))
    return families.family_label(family)


def counted(strata: Sequence[Family]) -> str:
    """Say over how many families, levels of axes and variants these settings go: ``2 families x 3 sizes``."""
    own = [x for x in strata if isinstance(x, Setting)]
    kinds: dict[str, set[str]] = {"families": {x.family for x in own}, "variants": {x.variant for x in own}}
    for x in own:
        for axis, level in x.places:
            noun = {SIZE: "sizes", TOKENS: "numbers of tokens"}.get(axis, f"levels of {axis}")
            kinds.setdefault(noun, set()).add(level)
    several = {noun: len(found) for noun, found in kinds.items() if len(found) > 1}
    if math.prod(several.values()) != len(strata):
        return f"{len(strata)} settings"
    return " x ".join(f"{number} {noun}" for noun, number in several.items())


def file_name(kind: str, name: str) -> str:
    """Name a file, whatever characters a table puts into a name."""
    return f"{kind}-{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}"


def figure_names(kind: str, benchmarks: Iterable[Benchmark]) -> Mapping[Benchmark, str]:
    """Name one kind of figure for each benchmark; of several that a file cannot tell apart, by number."""
    names, times = {}, Counter()
    for benchmark in benchmarks:
        name = file_name(kind, str(benchmark))
        times[name] += 1
        names[benchmark] = name if times[name] == 1 else f"{name}-{times[name]}"
    return names


def ordered(names: Iterable[Name], wanted: Sequence[Name]) -> list[Name]:
    """Sort names by their place in ``wanted``, the unlisted ones after them by name."""
    places = {name: place for place, name in enumerate(wanted)}
    return sorted(names, key=lambda name: (places.get(name, len(places)), str(name)))


def ordered_benchmarks(benchmarks: Iterable[Benchmark], listed: Sequence[Benchmark]) -> tuple[Benchmark, ...]:
    """Sort benchmarks: held-out loss, then as ``SUITES`` does, any other by name.

    Heads of one stand as the study lists them, graded metrics behind what they belong to.
    """
    places = {name: place for place, name in enumerate((HELD_OUT, *SUITES))}
    own_places = {benchmark: place for place, benchmark in enumerate(listed)}

    def key(found: Benchmark) -> tuple[int, str, int, str, str]:
        own = own_places.get(replace(found, metric=""), len(listed))
        return places.get(found.name, len(places)), found.name, own, found.head, found.metric

    return tuple(sorted(benchmarks, key=key))


def title(benchmark: Benchmark) -> str:
    """Name an outcome as a reader writes it."""
    return "held-out loss" if benchmark.name == HELD_OUT else str(benchmark)
