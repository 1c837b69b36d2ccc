"""What is said of one reader of result files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from eval.report.readers.results import Result


@dataclass(frozen=True, kw_only=True)
class ReaderSpec:
    """A format of result files.

    Attributes:
        name: Of the tool.
        label: What messages call its files.
        patterns: Names of its files, as ``Path.glob`` has them; the first is the tool's own.
        read: Yields the results of one file; None where the file is not of this format. Raises ``UsageError``
            for a file that is, and is damaged.
    """

    name: str
    label: str
    patterns: tuple[str, ...]
    read: Callable[[Path], Iterable[Result] | None]
