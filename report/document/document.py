"""A page as data, and the one writer of pages: Markdown, HTML, JSON, figures and tables."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from base.errors import UsageError
from base.files import ABANDONED_S, remove_leftovers, write_atomically
from report.document.html import to_html
from report.document.markdown import plain
from report.figures.style import to_svg
from scores.rows import to_csv

Drawing = tuple[Figure, str]
"""A figure, and its alternative text: one sentence."""
FIGURES, TABLES = "figures", "tables"
"""Folders beside a page."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """A page, whoever makes it.

    Attributes:
        title: Plain text: the heading, and what the browser's tab says.
        blocks: Markdown below the heading, in the order of the page; empty ones are left out. Figures are
            linked as ``figures/NAME.svg`` (``markdown.figure``).
        figures: By file name without suffix.
        tables: By file name without suffix; written as CSV, and as a list of rows into the JSON file.
        record: What the JSON file holds beside the tables: values of JSON, mappings, sequences and numpy's
            numbers. A number that is not finite becomes null.
        command: What makes the page again, shown at its end.
    """

    title: str
    blocks: tuple[str, ...]
    figures: Mapping[str, Drawing] = field(default_factory=dict)
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""

    @property
    def markdown(self) -> str:
        """The page."""
        reproduce = f"## Reproduce\n\n```bash\n{self.command}\n```"
        return "\n\n".join(filter(None, (f"# {plain(self.title)}", *self.blocks, reproduce))) + "\n"

    @property
    def json(self) -> str:
        """Every number, ``null`` for one that is not finite.

        Raises:
            UsageError: If a table has the name of something in the record.
        """
        if both := self.record.keys() & self.tables.keys():
            raise UsageError(f"{sorted(both)} are names of report.json's own; name these tables otherwise")
        tables = {name: _rows(table) for name, table in self.tables.items()}
        content = {"title": self.title, "command": self.command, **_finite(self.record), **tables}
        return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write_document(document: Document, folder: Path, name: str = "report") -> Path:
    """Write a page and all that belongs to it: the same bytes from the same numbers.

    Every file is written aside and renamed. What killed processes left of that is removed.

    Args:
        document: The page.
        folder: Where it goes; made if absent.
        name: Of ``NAME.html`` (one file that needs nothing beside it), ``NAME.json`` and ``NAME.md``, which
            is written last. Beside them lie ``figures/*.svg`` and ``tables/*.csv``.

    Returns:
        The path of ``NAME.md``.

    Raises:
        UsageError: If ``folder`` is a file, or a table has the name of something in the record.
    """
    refuse_file(folder)
    images = {
        f"{FIGURES}/{figure}.svg": to_svg(plot, figure.replace("-", " "), alt)
        for figure, (plot, alt) in document.figures.items()
    }
    files: dict[str, str | bytes] = {**images}
    files |= {f"{TABLES}/{table}.csv": to_csv(rows) for table, rows in document.tables.items()}
    files[f"{name}.json"] = document.json
    apart = f"\n`{TABLES}/` is in the folder of the report, `docs/` is that of ffn-ablations.\n"
    files[f"{name}.html"] = to_html(document.markdown + apart, document.title, images)
    files[f"{name}.md"] = document.markdown  # last: whoever sees it finds the others
    write_files(folder, files)
    return folder / f"{name}.md"


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files below a folder in this order, each whole; remove what was left of earlier ones there."""
    for place in {(folder / file).parent for file in files}:
        remove_leftovers(place, ABANDONED_S)
    for file, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        write_atomically(folder / file, lambda path, data=data: path.write_bytes(data))


def refuse_file(folder: Path) -> None:
    """Refuse a folder that is a file, before anything is computed for it.

    Raises:
        UsageError: If it is one.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; --out names a folder")


def shown_path(path: Path) -> str:
    """Write a path as typed from here, so that a page names no folder of the machine it was made on."""
    absolute = path.resolve()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else os.fspath(path)


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return json.loads(table.to_json(orient="records", double_precision=15))


def _finite(value: Any) -> Any:
    """The same as plain values of JSON, with None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(name): _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    number = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(number, float) and not math.isfinite(number) else number
