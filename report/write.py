"""Writes a report: every number is computed first, then every file is written; its tables and figures."""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from base.errors import UsageError, unknown_name
from base.run.folder_names import REPORT_NAME
from report.analysis import Analysis
from report.compute import analyse
from report.document.document import Document, Drawing, refuse_file, shown_path, write_document, write_files
from report.figures.forest import forest_panel
from report.figures.style import STYLE, Panel, settle
from report.inputs.sources import read_source
from report.page import answer, blocks
from report.paper import FOLDER, paper_files
from report.part import Draw, Page, Part
from report.parts.learning_curves import learning_curves_panel
from report.parts.scores import seeds_panel
from report.request import Request
from report.significance.axes import Benchmark, Family, places_of, without_places
from report.verdicts.findings import shown_first

VERSIONED = ("ffn-ablations", "numpy", "scipy", "pandas", "matplotlib", "markdown-it-py")
"""Packages that numbers and figures depend on."""
Made = TypeVar("Made")
Name = TypeVar("Name")
FindPanel = Callable[[Analysis, Benchmark, Family], Panel | None]
AXES = ("benchmark", "family", "variant", "contrast")
"""Columns that hold more than text."""


def write_report(source: Path, out: Path, request: Request | None = None) -> Analysis:
    """Write a report; every number is computed before the first file is written.

    Args:
        source: A study's folder, a rows file, a table of scores, or result files of another tool.
        out: Folder for the report; made if absent. ``report.md`` in it is written last.
        request: What is asked of the report; None takes the study's choices and the defaults.

    Returns:
        What was computed.

    Raises:
        UsageError: For a source, baseline or contrast that cannot be used.
    """
    refuse_file(out)
    request = request or Request()
    analysis = analyse(read_source(source, request), request)
    write_analysis(analysis, out)
    return analysis


def write_analysis(analysis: Analysis, out: Path) -> None:
    """Write the report of what was computed before; ``report.md`` is written last.

    Args:
        analysis: All its numbers.
        out: Folder for the report; made if absent.

    Raises:
        UsageError: If ``out`` is a file.
    """
    drawings, command, versions = draw_all(analysis), _command(analysis, out), installed_versions()
    if analysis.request.paper:
        figures = {name: figure for name, (figure, _) in drawings.items()}
        write_files(out / FOLDER, paper_files(analysis, figures, versions["ffn-ablations"]))
    write_document(_document(analysis, drawings, command, versions), out, Path(REPORT_NAME).stem)


def _document(
    analysis: Analysis, drawings: Mapping[str, Drawing], command: str, versions: Mapping[str, str]
) -> Document:
    page = Page(alternative_texts={name: text for name, (_, text) in drawings.items()})
    made_with = "Made with " + ", ".join(f"{name} {version}" for name, version in versions.items()) + "."
    return Document(
        title=f"Report: {analysis.source.title}",
        blocks=(*blocks(analysis, page), made_with),
        figures=drawings,
        tables=number_tables(analysis),
        record=record_of(analysis, versions, shown_path(analysis.source.path)),
        command=command,
    )


def _command(analysis: Analysis, out: Path) -> str:
    """The command that makes this report again, with every choice written out that was made for it."""
    margins = {x.name: f"{x.name}={x.margin:g}" for x in analysis.metrics.values() if x.margin}
    choices = analysis.request.model_dump(exclude={"source"}) | {
        "out": shown_path(out),
        "baseline": str(analysis.baseline),
        "margin": tuple(margins.values()),
        "paired": analysis.inference.paired,
    }
    if analysis.factor != "ffn":
        choices["factor"] = analysis.factor
    words = ["ffn-ablations", "report", shown_path(analysis.source.path)]
    for name, value in choices.items():
        if value:
            values = value if isinstance(value, tuple) else () if value is True else (value,)
            words += [f"--{name.replace('_', '-')}", *map(str, values)]
    return shlex.join(words)


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers and figures depend on."""
    versions = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # run from a source tree that was never installed
            versions[name] = "unknown"
    return versions


def number_tables(analysis: Analysis) -> dict[str, pd.DataFrame]:
    """Return the tables of all parts by name, each row a record; those without rows are left out."""
    tables = _of_parts(analysis, "table", lambda part, result: part.tables(analysis, result))
    axes = [name for name in analysis.source.axes if name != analysis.factor]
    return {name: _labelled(table, axes) for name, table in tables.items() if len(table)}


def _of_parts(
    analysis: Analysis, what: str, items_of: Callable[[Part[Any], Any], Mapping[str, Made]]
) -> dict[str, Made]:
    """Gather what parts make, by its name.

    Raises:
        UsageError: If two of them use one name: one would take the other's place.
    """
    items: dict[str, Made] = {}
    owners: dict[str, str] = {}
    for part, result in analysis.told:
        for name, item in items_of(part, result).items():
            if name in owners:
                raise UsageError(
                    f"parts {owners[name]!r} and {part.name!r} both have a {what} {name!r}; rename one"
                )
            items[name], owners[name] = item, part.name
    return items


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
    axes = {name: list(levels) for name, levels in analysis.source.axes.items()}
    return {
        "answer": list(answer(analysis)),
        "source": source,
        "source_kind": analysis.source.kind,
        "versions": dict(versions),
        "factor": analysis.source.factor,
        **({"axes": axes} if axes else {}),
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


def _by_label(analysis: Analysis, of_benchmarks: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a benchmark is known of it under every head."""
    shown = (*analysis.benchmarks, *analysis.not_compared)
    return {
        str(benchmark): value
        for name, value in of_benchmarks.items()
        for benchmark in [x for x in shown if x.name == name] or [Benchmark(name)]
    }


def draw_all(analysis: Analysis) -> dict[str, Drawing]:
    """Draw every figure that the analysis has numbers for.

    Returns:
        File name without suffix, mapped to the figure and its alternative text.
    """
    return {name: drawing for name, draw in draws(analysis).items() if (drawing := settled(name, draw))}


def draw_one(analysis: Analysis, name: str) -> Figure:
    """Draw one of these figures.

    Raises:
        UsageError: If there is none of that name for these scores.
    """
    by_name = draws(analysis)
    if name not in by_name:
        raise unknown_name("figure", name, by_name)
    if drawing := settled(name, by_name[name]):
        return drawing[0]
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


PLOTS: Mapping[str, FindPanel] = {
    "forest": lambda analysis, outcome, _: forest_panel(analysis, outcome),
    "seeds": seeds_panel,
    "learning-curves": lambda analysis, _, family: learning_curves_panel(analysis, family),
    "learning-curve-differences": lambda analysis, _, family: learning_curves_panel(
        analysis, family, "difference"
    ),
}
"""Every kind of figure that fits into one pair of axes, by its name."""


def find_panel(analysis: Analysis, kind: str, outcome: str | None, family: str | None) -> Panel:
    """Return one figure of an analysis, ready to be drawn into axes.

    Args:
        analysis: What was computed.
        kind: One of ``PLOTS``.
        outcome: Its name; None takes the first of the report.
        family: Its name; None takes the first in which the outcome was scored.

    Raises:
        UsageError: For a name that there is not, or where nothing is known that could be drawn.
    """
    if kind not in PLOTS:
        raise unknown_name("kind of figure", kind, PLOTS)
    benchmark = _named(outcome, analysis.benchmarks, "outcome") or shown_first(analysis)[0]
    scored = [name for name in analysis.scopes(benchmark) if name is not None]
    panel = PLOTS[kind](analysis, benchmark, _named(family, scored, "family") or scored[0])
    if panel is None:
        raise UsageError(
            f"there is nothing to draw as {kind}: it needs the folders of the runs, as a study has"
        )
    return panel


def _named(text: str | None, names: Iterable[Name], what: str) -> Name | None:
    """Return what has that name; None where none is given."""
    by_name = {str(name): name for name in names}
    if text is None:
        return None
    if text not in by_name:
        raise unknown_name(what, text, by_name)
    return by_name[text]
