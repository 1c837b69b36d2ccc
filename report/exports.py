"""What a report is written from: numbers as tables, what report.json holds beside them, figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from base.errors import UsageError, unknown_name
from report.analysis import Analysis
from report.figures.style import STYLE, settle
from report.page import answer
from report.part import Draw, Drawing, Part
from report.significance.axes import Benchmark, places_of, without_places

Made = TypeVar("Made")
AXES = ("benchmark", "family", "variant", "contrast")
"""Columns that hold more than text."""


def number_tables(analysis: Analysis) -> dict[str, pd.DataFrame]:
    """Return the tables of all parts by name, each row a record; those without rows are left out."""
    tables = _of_parts(analysis, "table", lambda part, result: part.tables(analysis, result))
    axes = [name for name in analysis.source.axes if name != analysis.factor]
    return {name: _labelled(table, axes) for name, table in tables.items() if len(table)}


def _of_parts(
    analysis: Analysis, what: str, made: Callable[[Part[Any], Any], Mapping[str, Made]]
) -> dict[str, Made]:
    """Gather what parts make, by its name.

    Raises:
        UsageError: If two of them use one name: one would take the other's place.
    """
    found: dict[str, Made] = {}
    owners: dict[str, str] = {}
    for part in analysis.parts:
        result = part.of(analysis)
        for name, one in made(part, result).items() if result is not None else ():
            if name in owners:
                raise UsageError(
                    f"parts {owners[name]!r} and {part.name!r} both have a {what} {name!r}; rename one"
                )
            found[name], owners[name] = one, part.name
    return found


def _labelled(table: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """Write out what stands at the axes of a table: of settings the family, and their places beside it."""
    table = table.copy()
    if axes and "family" in table.columns:
        families = table["family"].to_list()
        place = list(table.columns).index("family")
        for number, axis in enumerate(axes, start=1):
            name = f"{axis} level" if axis in table.columns else axis
            levels = [dict(places_of(family)).get(axis) for family in families]
            table.insert(place + number, name, pd.Series(levels, table.index, dtype="object"))
        names = [without_places(family) for family in families]
        table["family"] = pd.Series(names, table.index, dtype="object")
    for name in AXES:
        if name in table.columns:
            table[name] = pd.Series([_label(value) for value in table[name]], table.index, dtype="object")
    return table


def _label(value: object) -> str | None:
    # The average over families has no name, which a column of text holds as nan.
    return None if value is None or value != value else str(value)


def record_of(analysis: Analysis, versions: Mapping[str, str], source: str) -> dict[str, Any]:
    """Return what report.json holds beside the tables.

    Args:
        analysis: What was computed.
        versions: Of Python and of packages.
        source: The source's path as it is to be shown.
    """
    return {
        "answer": list(answer(analysis)),
        "source": source,
        "source_kind": analysis.source.kind,
        "versions": dict(versions),
        "factor": analysis.source.factor,
        **(
            {"axes": {name: list(own) for name, own in axes.items()}}
            if (axes := analysis.source.axes)
            else {}
        ),
        "baseline": str(analysis.baseline),
        **asdict(analysis.inference),
        "families": list(map(str, analysis.families)),
        "variants": list(map(str, analysis.variants)),
        "benchmarks": list(map(str, analysis.benchmarks)),
        "primary": list(map(str, analysis.primary)),
        "outcome_definitions": {str(name): asdict(metric) for name, metric in analysis.metrics.items()},
        "warnings": list(analysis.warnings),
        "baselines": _by_label(analysis, analysis.source.baselines),
    }


def _by_label(analysis: Analysis, known: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a benchmark is known of it under every head."""
    shown = (*analysis.benchmarks, *analysis.not_compared)
    return {
        str(benchmark): value
        for name, value in known.items()
        for benchmark in [found for found in shown if found.name == name] or [Benchmark(name)]
    }


def draw_all(analysis: Analysis) -> dict[str, Drawing]:
    """Draw every figure that the analysis has numbers for.

    Returns:
        File name without suffix, mapped to the figure and its alternative text.
    """
    return {name: found for name, draw in draws(analysis).items() if (found := settled(name, draw))}


def draw_one(analysis: Analysis, name: str) -> Figure:
    """Draw one of these figures.

    Raises:
        UsageError: If there is none of that name for these scores.
    """
    known = draws(analysis)
    if name not in known:
        raise unknown_name("figure", name, known)
    if found := settled(name, known[name]):
        return found[0]
    raise UsageError(f"the figure {name!r} has nothing to show: its numbers are not among these scores")


def draws(analysis: Analysis) -> dict[str, Draw]:
    """Return what draws each figure, by its name; some will find nothing to draw."""
    return _of_parts(analysis, "figure", lambda part, result: part.figures(analysis, result))


def settled(name: str, draw: Draw) -> Drawing | None:
    """Draw a figure and lay it out.

    Raises:
        UsageError: If it comes without its alternative text.
    """
    with matplotlib.rc_context(STYLE):
        drawing = draw()
        if drawing is None:
            return None
        if not (isinstance(drawing, tuple) and len(drawing) == 2 and str(drawing[1] or "").strip()):
            raise UsageError(
                f"the figure {name!r} has no words for who does not see it; what draws it returns the figure "
                "and one sentence"
            )
        settle(drawing[0])
    return drawing
