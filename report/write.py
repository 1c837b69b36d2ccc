"""Writes a report: every number is computed first, then every file is written."""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
from collections.abc import Mapping
from pathlib import Path

from base.run.folder_names import REPORT_NAME
from report.analyse import analyse
from report.analysis import Analysis, Request
from report.document.document import (
    Document,
    Drawing,
    refuse_file,
    shown_path,
    write_document,
    write_files,
)
from report.exports import draw_all, number_tables, record_of
from report.inputs.sources import Source, read_source
from report.page import blocks
from report.paper import FOLDER, paper_files
from report.part import Page
from scores.metrics import Declared

VERSIONED = ("ffn-ablations", "numpy", "scipy", "pandas", "matplotlib", "markdown-it-py")


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
    analysis = analyse(_read(source, request or Request()), request)
    write_analysis(analysis, out)
    return analysis


def _read(source: Path, request: Request) -> Source:
    return read_source(source, request.axes, request.reading)


def write_analysis(analysis: Analysis, out: Path) -> None:
    """Write the report of what was computed before; ``report.md`` is written last.

    Args:
        analysis: All its numbers.
        out: Folder for the report; made if absent.

    Raises:
        UsageError: If ``out`` is a file.
    """
    refuse_file(out)
    drawn, command, versions = draw_all(analysis), _command(analysis, out), installed_versions()
    if analysis.request.paper:
        figures = {name: figure for name, (figure, _) in drawn.items()}
        write_files(out / FOLDER, paper_files(analysis, figures, versions["ffn-ablations"]))
    write_document(_document(analysis, drawn, command, versions), out, Path(REPORT_NAME).stem)


def _document(
    analysis: Analysis, drawn: Mapping[str, Drawing], command: str, versions: Mapping[str, str]
) -> Document:
    page = Page(alternative_texts={name: text for name, (_, text) in drawn.items()})
    made = "Made with " + ", ".join(f"{name} {version}" for name, version in versions.items()) + "."
    return Document(
        title=f"Report: {analysis.source.title}",
        blocks=(*blocks(analysis, page), made),
        figures=drawn,
        tables=number_tables(analysis),
        record=record_of(analysis, versions, shown_path(analysis.source.path)),
        command=command,
    )


def _command(analysis: Analysis, out: Path) -> str:
    """The command that makes this report again, with every choice written out that was made for it."""
    request, how = analysis.request, analysis.inference
    words = ["ffn-ablations", "report", shown_path(analysis.source.path), "--out", shown_path(out)]
    words += ["--baseline", str(analysis.baseline)]
    words += declarations(request.declared)
    margins = {x.name: f"{x.name}={x.margin:g}" for x in analysis.metrics.values() if x.margin}
    words += ["--margin", *margins.values()] if margins else []
    words += ["--scale", request.scale] if request.scale else []
    words += request.reading.flags
    for axis in request.axes:
        words += ["--axis", axis]
    words += ["--factor", analysis.source.factor] if analysis.factor != "ffn" or request.factor else []
    words += ["--head", request.head] if request.head else []
    for contrast in request.contrasts:
        words += ["--contrast", contrast]
    words += ["--paired"] if how.paired else []
    words += ["--looks", *map(str, request.looks)] if request.looks else []
    words += ["--published", request.published] if request.published else []
    for part in request.parts:
        words += ["--part", part]
    words += ["--paper"] if request.paper else []
    return shlex.join(words)


def declarations(declared: Declared) -> list[str]:
    """Flags that say again which scores are better, and what guessing scores."""
    directions = declared.lower_is_better.items()
    flags = {
        "--lower-is-better": [str(name) for name, is_lower in directions if is_lower],
        "--higher-is-better": [str(name) for name, is_lower in directions if not is_lower],
        "--chance": [f"{name}={chance:g}" for name, chance in declared.chances.items()],
    }
    return [word for flag, values in flags.items() if values for word in (flag, *values)]


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers and figures depend on."""
    versions = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # run from a source tree that was never installed
            versions[name] = "unknown"
    return versions
