"""Writes a report: every number is computed first, then every file is written."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shlex
from pathlib import Path

from base.errors import UsageError
from base.files import ABANDONED_S, remove_leftovers, write_atomically
from eval.report.analyse import analyse
from eval.report.analysis import Analysis, Request
from eval.report.document.html import to_html
from eval.report.exports import as_json, number_tables
from eval.report.figures import draw_all, to_png, to_svg
from eval.report.inputs.sources import Source, read_source
from eval.report.markdown_report import render
from eval.report.paper.write import FOLDER, paper_files
from eval.report.sections.context import Context
from eval.results.columns import to_csv
from eval.results.outcome import Declared
from pretrain.run.folders import REPORT_NAME

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
    _refuse_file(out)
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
    _refuse_file(out)
    drawn = draw_all(analysis)
    context = Context(
        command=_command(analysis, out),
        versions=installed_versions(),
        figures={name: alt for name, (_, alt) in drawn.items()},
    )
    images = {
        f"figures/{name}.svg": to_svg(figure, name.replace("-", " "), alt)
        for name, (figure, alt) in drawn.items()
    }
    tables, markdown = number_tables(analysis), render(analysis, context)
    files: dict[str, str | bytes] = {**images}
    files |= {f"figures/{name}.png": to_png(figure) for name, (figure, _) in drawn.items()}
    files |= {f"tables/{name}.csv": to_csv(table) for name, table in tables.items()}
    files["report.json"] = as_json(analysis, context, tables, _shown(analysis.source.path))
    if analysis.request.paper:
        figures = {name: figure for name, (figure, _) in drawn.items()}
        made = paper_files(analysis, figures, context.versions["ffn-ablations"])
        files |= {f"{FOLDER}/{name}": content for name, content in made.items()}
    files["report.html"] = to_html(markdown, f"Report: {analysis.source.title}", images)
    files[REPORT_NAME] = markdown  # last: whoever sees it finds the rest
    for place in (out, *out.glob("*/"), *out.glob("*/*/")):
        remove_leftovers(place, ABANDONED_S)
    for name, content in files.items():
        _write(out / name, content if isinstance(content, bytes) else content.encode())


def _refuse_file(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; --out names a folder")


def _write(path: Path, content: bytes) -> None:
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def _command(analysis: Analysis, out: Path) -> str:
    """The command that makes this report again, with every choice written out that was made for it."""
    request, how = analysis.request, analysis.inference
    words = ["ffn-ablations", "report", _shown(analysis.source.path), "--out", _shown(out)]
    words += ["--baseline", str(analysis.baseline)]
    words += declarations(request.declared)
    margins = {x.name: f"{x.name}={x.margin:g}" for x in analysis.outcomes.values() if x.margin}
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
    words += ["--source-study"] if request.source_study else []
    words += ["--published", request.published] if request.published else []
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


def _shown(path: Path) -> str:
    """A path as typed from here, so that a report names no folder of the machine it was made on."""
    absolute = path.resolve()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else os.fspath(path)


def installed_versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers and figures depend on."""
    versions = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # run from a source tree that was never installed
            versions[name] = "unknown"
    return versions
