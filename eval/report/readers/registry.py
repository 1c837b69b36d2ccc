"""Every reader of other tools' result files, and which of them a file or folder is for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from base.errors import UsageError
from eval.report.readers import helm, inspect_logs, lighteval, lm_eval
from eval.report.readers.reading import Found, Reading
from eval.report.readers.results import Result, to_table
from eval.report.readers.spec import ReaderSpec

READERS = {
    spec.name: spec
    for spec in (
        lm_eval.RESULTS,
        lighteval.RESULTS,
        helm.RESULTS,
        inspect_logs.RESULTS,
        lm_eval.SAMPLES,
    )
}
"""By the name of the tool. Where a folder has results and samples of one tool, the results count."""
SUFFIXES = (".json", ".jsonl", ".eval")
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
        UsageError: For a file that is damaged or of no known format, or files of several tools.
    """
    found = {name: results for name, spec in READERS.items() if (results := _read(spec, path))}
    if lm_eval.RESULTS.name in found:
        found.pop(lm_eval.SAMPLES.name, None)
    if len(found) > 1:
        raise UsageError(f"{path} holds results of {' and '.join(found)}; give those of one tool")
    if not found:
        if path.is_dir():
            return None
        names = ", ".join(READERS)
        raise UsageError(f"{path} is no result file that is known here; those of {names} are")
    ((name, results),) = found.items()
    read = to_table(results, reading, axes, str(path))
    return Found(table=read.table, notes=read.notes, kind=READERS[name].label)


def _read(spec: ReaderSpec, path: Path) -> list[Result]:
    files = [path] if path.is_file() else sorted({f for p in spec.patterns for f in path.rglob(p)})
    results: list[Result] = []
    for file in files:
        if not any(file.match(pattern) for pattern in spec.patterns):
            continue
        results += spec.read(file) or ()
    return results
