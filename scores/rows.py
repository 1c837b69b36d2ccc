"""The table that every stage of the evaluation writes and the report reads.

One row is one score of one run on one task in one metric, and where the task is a classification, under one
head. Scores are in percent, so that accuracy, F1 and Matthews correlation (-100 to 100) share an axis.
``primary`` is true for the one metric that stands for its task in means, the task's headline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from base.errors import UsageError
from base.files import write_atomically, write_text
from scores.suites import is_percentage

_IDENTITY = ("run_id", "family", "variant", "seed")
ROW_COLUMNS = (*_IDENTITY, "benchmark", "task", "group", "metric", "score", "n_items", "head", "primary")
RunKey = tuple[str, str, int]
"""Family, variant and seed: what a run is within a study."""
ROW_KEY = ("run_id", "benchmark", "task", "metric", "head")
LARGEST = 1e100
"""No score is beyond it; the square of a larger number may be infinite."""
NO_HEAD = ""
"""``head`` of a score that no classification head has part in."""
NO_METRIC = "score"
"""``metric`` in a table that names none."""
SCORED = ("run_id", "benchmark", "task", "head")
"""What has one primary metric."""
_TEXT_COLUMNS = ("run_id", "family", "variant", "benchmark", "task", "group", "metric", "head")


def run_name(run: tuple[object, object, int]) -> str:
    """Name a run as messages do."""
    family, variant, seed = run
    return f"{family} {variant} seed {seed}"


def check_axis(name: str, source: str) -> str:
    """Return the name of an axis, which has a column of its own in tables.

    Raises:
        UsageError: If it is a column that rows have anyway, or empty.
    """
    if not name or name in ROW_COLUMNS:
        raise UsageError(
            f"{source}: {name!r} is no axis, as every table of scores has a column of that name; rename it"
            if name
            else f"{source}: an axis has no name; name the column that it stands in"
        )
    return name


def check_rows(rows: pd.DataFrame, source: str = "rows") -> pd.DataFrame:
    """Return the rows with exactly the columns of ``ROW_COLUMNS``, in that order and with fixed types.

    Args:
        rows: A table with at least those columns; ``head`` and ``primary`` may be absent.
        source: Where it came from, for the error message.

    Raises:
        UsageError: If a column is absent, a score is not a number, two rows share a key, or a task has two
            primary metrics.
    """
    if "head" not in rows.columns:  # tables from before there was a choice
        rows = rows.assign(head=NO_HEAD)
    absent = [column for column in ROW_COLUMNS if column not in (*rows.columns, "primary")]
    if absent:
        raise UsageError(f"{source}: no column {', '.join(absent)}; rows have {', '.join(ROW_COLUMNS)}")
    rows = rows[[column for column in ROW_COLUMNS if column in rows.columns]].reset_index(drop=True)
    try:
        rows = rows.astype({"score": float, "seed": "int64", "n_items": "int64"})
    except (TypeError, ValueError) as error:
        raise UsageError(f"{source}: seed, score and n_items must be numbers: {error}") from error
    if rows["score"].isna().any():
        raise UsageError(f"{source}: a score is not a number; remove that row or evaluate the run again")
    _refuse_two(rows, ROW_KEY, source, "rows", "keep one of them")
    rows = with_primary(rows.astype(dict.fromkeys(_TEXT_COLUMNS, "str")), source)
    _refuse_two(rows[rows["primary"]], SCORED, source, "primary metrics", "one stands for a task")
    return rows


def _refuse_two(rows: pd.DataFrame, columns: Sequence[str], source: str, what: str, cure: str) -> None:
    if len(twice := rows[rows.duplicated(list(columns))]):
        key = " ".join(str(twice.iloc[0][column]) for column in columns)
        raise UsageError(f"{source}: two {what} for {key}; {cure}")


def with_primary(rows: pd.DataFrame, source: str = "rows") -> pd.DataFrame:
    """Return the rows with ``primary`` as Booleans, filled in where no row of a task says it.

    Args:
        rows: Text in the columns of ``ROW_KEY``.
        source: Where they came from, for the error message.

    Raises:
        UsageError: For a value that is neither true nor false.
    """
    primary = _as_written(rows, source)
    is_written = primary
    if primary.any():
        is_written = primary.groupby([rows[column] for column in SCORED]).transform("any")
    if not is_written.all():
        tasks = rows[~is_written].groupby(["benchmark", "task"])["metric"]
        headlines = {(name, task): primary_metric(str(task), metrics) for (name, task), metrics in tasks}
        names = rows[["benchmark", "task", "metric"]]
        is_headline = of_each_row(names, lambda name, task, metric: headlines.get((name, task)) == metric)
        primary = primary.where(is_written, pd.Series(is_headline, rows.index, bool)).astype(bool)
    return rows.assign(primary=primary)


def _as_written(rows: pd.DataFrame, source: str) -> pd.Series:
    if "primary" not in rows.columns:
        return pd.Series(False, rows.index, dtype=bool)
    column = rows["primary"].astype(object)
    texts = column.where(column.notna(), "").astype(str).str.strip().str.lower()
    if len(bad := column[~texts.isin(["true", "false", ""])]):
        raise UsageError(f"{source}: primary is {bad.iloc[0]!r}; it must be true or false")
    return texts == "true"


HEADLINES = {"cola": "matthews_correlation", "mrpc": "f1", "qqp": "f1", "multiwoz": "macro_f1"}
"""What stands for a task of these names, where it was scored in several metrics."""


def primary_metric(task: str, metrics: Iterable[str]) -> str:
    """Name what stands for a task where nobody says it: a percentage before others, and accuracy first."""
    ordered = sorted(metrics, key=lambda name: (not is_percentage(name), name))
    headline = HEADLINES.get(task.lower().rpartition("/")[2])
    return next((name for name in (headline, "accuracy") if name in ordered), ordered[0])


def empty_rows() -> pd.DataFrame:
    """Return a table of rows without any row."""
    return _no_rows().copy()


@cache
def _no_rows() -> pd.DataFrame:
    return check_rows(pd.DataFrame({column: [] for column in ROW_COLUMNS}))


def replace_task(
    rows: pd.DataFrame, benchmark: str, task: str, new: pd.DataFrame, head: str = NO_HEAD
) -> pd.DataFrame:
    """Return ``rows`` with everything said about one task under one head replaced by ``new``.

    What was said of the task before there were heads goes too.
    """
    same = (rows["benchmark"] == benchmark) & (rows["task"] == task) & rows["head"].isin([head, NO_HEAD])
    others, new = rows[~same], new.assign(head=head)
    rows = check_rows(pd.concat([others, new]) if len(others) else new)
    # Tasks may end in any order.
    return rows.sort_values(["benchmark", "task", "head"], kind="stable", ignore_index=True)


def write_rows(rows: pd.DataFrame, path: Path) -> Path:
    """Write rows as parquet, and beside it as CSV for those who open it by hand; each whole or not at all."""
    rows = check_rows(rows, source=str(path))
    write_table(rows, path)
    write_text(path.with_suffix(".csv"), to_csv(rows))
    return path


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table without its index as parquet in one step, each of its pages with a checksum."""
    write_atomically(path, lambda place: table.to_parquet(place, index=False, write_page_checksum=True))


def read_table(path: Path, columns: Sequence[str] | None = None, **options: Any) -> pa.Table:
    """Read a table, comparing its pages with their checksums where it has some.

    Args:
        path: The file.
        columns: Those of it that are wanted; None takes all.
        options: As of ``pyarrow.parquet.read_table``.

    Raises:
        UsageError: If it is absent, or cannot be read.
    """
    try:
        return pq.read_table(path, columns=columns, page_checksum_verification=True, **options)
    except FileNotFoundError:
        raise UsageError(f"{path} is gone") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} cannot be read: {' '.join(str(error).split())[:200]}") from None


def read_rows(path: Path) -> pd.DataFrame:
    """Read rows from parquet.

    Raises:
        UsageError: If the file is absent, is not parquet, or is not a table of rows.
    """
    if not path.exists():
        raise UsageError(f"no rows at {path}; evaluate the run first: ffn-ablations eval RUN")
    return check_rows(read_table(path).to_pandas(), source=str(path))


def of_each(column: pd.Series, function: Callable[[Any], Any]) -> np.ndarray:
    """(N,) values of a function of each entry of a column without gaps."""
    return of_each_row(column.to_frame(), function)


def of_each_row(table: pd.DataFrame, function: Callable[..., Any]) -> np.ndarray:
    """(N,) values of a function of each row of a table without gaps; rows that are alike share one object."""
    if table.empty:
        return np.empty(0, object)
    codes = table.groupby(list(table.columns), sort=False).ngroup().to_numpy()
    first = ~pd.Series(codes).duplicated().to_numpy()
    values = np.empty(int(first.sum()), object)
    values[:] = [function(*row) for row in table[first].itertuples(index=False, name=None)]
    return values[codes]


# What Excel, LibreOffice and Google Sheets take for the begin of a formula, behind any number of marks.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_MARKED = re.compile(r"'+[=+\-@\t\r]")


def to_csv(table: pd.DataFrame) -> str:
    """Write a table without its index.

    Texts that begin with ``= + - @``, a tab or a carriage return get an apostrophe in front, the sign of
    spreadsheets for text. Numbers stay as they are.
    """
    marked = {name: table[name].astype(object).map(_mark) for name in _texts(table)}
    return table.assign(**marked).to_csv(index=False)


def unmark(table: pd.DataFrame) -> pd.DataFrame:
    """Take the apostrophes of ``to_csv`` off the texts of a table."""
    marked = [name for name in _texts(table) if table[name].astype(str).str.startswith("'").any()]
    table = table.copy()
    for name in marked:
        table[name] = table[name].map(_unmark)
    return table


def _texts(table: pd.DataFrame) -> list[str]:
    is_number = pd.api.types.is_numeric_dtype  # of a Boolean, too
    return [name for name in table.columns if not is_number(table[name])]


def _mark(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def _unmark(value: object) -> object:
    return value[1:] if isinstance(value, str) and _MARKED.match(value) else value
