"""Every reader of other tools' result files, and which of them a file or folder is for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from base.errors import UsageError
from eval.report.readers import lm_eval
from eval.report.readers.reading import Found, Reading
from eval.report.readers.results import Result, to_table
from eval.report.readers.spec import ReaderSpec

READERS = {spec.name: spec for spec in (lm_eval.RESULTS, lm_eval.SAMPLES)}
"""By the name of the tool; where a folder has results and samples, the results count."""
SUFFIXES = (".json", ".jsonl")
"""Of a file that a reader may take."""


def read_result_files(path: Path, reading: Reading, axes: Sequence[str]) -> Found | None:
    """Read the result files at a path.

    Args:
        path: One of them, or a folder with any number of them at any depth.
        reading: What the user said of them.
        axes: Fields of the models' names that are axes.

    Returns:
        None for a folder that holds none.

    Raises:
        UsageError: For a file of a tool that is damaged, or a file of no known format.
    """
    for spec in READERS.values():
        results, notes = _read(spec, path)
        if results:
            found = to_table(results, reading, axes, path)
            return Found(table=found.table, notes=(*found.notes, *notes), kind=spec.label)
    if path.is_dir():
        return None
    raise UsageError(f"{path} is no result file that is known here; those of {', '.join(READERS)} are")


def _read(spec: ReaderSpec, path: Path) -> tuple[list[Result], list[str]]:
    """Read a file, or those of a folder: one that only might be the tool's may be anything."""
    if path.is_file():
        is_of_tool = any(path.match(pattern) for pattern in spec.patterns)
        return list(spec.read(path) or ()) if is_of_tool else [], []
    results: list[Result] = []
    notes: list[str] = []
    for file in sorted({file for pattern in spec.patterns for file in path.rglob(pattern)}):
        if not file.is_file() or file.name.startswith("._"):  # what macOS puts beside a file
            continue
        try:
            results += spec.read(file) or ()
        except UsageError as error:
            if file.match(spec.patterns[0]):
                raise
            notes.append(f"not read: {error}")
    return results, notes
