"""How somebody else's table is to be read: what a user says of it, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from base.errors import UsageError, unknown_name
from eval.results.rows import ROW_COLUMNS

NAME = "name"
"""What ``--columns`` calls the column that a run's name stands in."""
DECLARATIONS = ("lower_is_better", "unit", "chance")
"""Further columns that a table of scores may have."""
TABLE = "CSV"
"""What kind of source a table is that somebody wrote."""
ONLY_FAMILY = "model"
"""The family of a table that names none."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a user said of a table; where nothing was said, it names itself."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """A column of rows, or ``name``, to what the table calls it."""
    scores: tuple[str, ...] = ()
    """Columns that are scores, one benchmark each."""
    names: str | None = None
    """How names of runs are made up: ``{variant}-seed{seed}``."""

    @property
    def flags(self) -> list[str]:
        """The flags that say it again."""
        columns = [f"{name}={theirs}" for name, theirs in self.columns.items()]
        return [
            *(["--columns", *columns] if columns else []),
            *(["--scores", *self.scores] if self.scores else []),
            *(["--names", self.names] if self.names else []),
        ]


@dataclass(frozen=True, kw_only=True)
class Found:
    """A table with the columns of rows, and what a reader of the report must know of its reading."""

    table: pd.DataFrame
    notes: tuple[str, ...] = ()
    kind: str = TABLE


def read_columns(texts: Iterable[str], axes: Iterable[str] = ()) -> dict[str, str]:
    """Read ``variant=Model seed=config.seed``.

    Args:
        texts: As written after ``--columns``.
        axes: Further columns of rows.

    Raises:
        UsageError: For a text without ``=``, a column that rows have not, or one named twice.
    """
    known = (*ROW_COLUMNS, *DECLARATIONS, NAME, *axes)
    columns: dict[str, str] = {}
    for text in texts:
        own, equals, theirs = text.partition("=")
        if not equals or not own or not theirs:
            raise UsageError(f"--columns {text!r} is no pair; write --columns variant=THEIR_COLUMN")
        if own not in known:
            raise unknown_name("column in --columns", own, known)
        if own in columns:
            raise UsageError(f"--columns names {own} twice; name each column once")
        columns[own] = theirs
    return columns
