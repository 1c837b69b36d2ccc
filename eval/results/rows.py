"""The table that every stage of the evaluation writes and the report reads.

One row is one score of one run on one task in one metric, and where the task is a classification, under one
head. Scores are in percent, so that accuracy, F1 and Matthews correlation (-100 to 100) share an axis.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from base.errors import UsageError
from base.files import write_atomically

ROW_COLUMNS = (
    "run_id",
    "family",
    "variant",
    "seed",
    "benchmark",
    "task",
    "group",
    "metric",
    "score",
    "n_items",
    "head",
)
RunKey = tuple[str, str, int]
"""Family, variant and seed: what a run is within a study."""
ROW_KEY = ("run_id", "benchmark", "task", "metric", "head")
NO_HEAD = ""
"""``head`` of a score that no classification head has part in."""
_TEXT_COLUMNS = ("run_id", "family", "variant", "benchmark", "task", "group", "metric", "head")


def run_name(run: RunKey) -> str:
    """Name a run as messages do."""
    family, variant, seed = run
    return f"{family} {variant} seed {seed}"


def check_rows(rows: pd.DataFrame, source: str = "rows") -> pd.DataFrame:
    """Return the rows with exactly the columns of ``ROW_COLUMNS``, in that order and with fixed types.

    Args:
        rows: A table with at least those columns; ``head`` may be absent.
        source: Where it came from, for the error message.

    Raises:
        UsageError: If a column is absent, a score is not a number, or two rows share a key.
    """
    if "head" not in rows.columns:  # tables from before there was a choice
        rows = rows.assign(head=NO_HEAD)
    absent = [column for column in ROW_COLUMNS if column not in rows.columns]
    if absent:
        raise UsageError(f"{source}: no column {', '.join(absent)}; rows have {', '.join(ROW_COLUMNS)}")
    rows = rows[list(ROW_COLUMNS)].reset_index(drop=True)
    try:
        rows = rows.astype({"score": float, "seed": "int64", "n_items": "int64"})
    except (TypeError, ValueError) as error:
        raise UsageError(f"{source}: seed, score and n_items must be numbers: {error}") from error
    if rows["score"].isna().any():
        raise UsageError(f"{source}: a score is not a number; remove that row or evaluate the run again")
    twice = rows[rows.duplicated(list(ROW_KEY))]
    if len(twice):
        key = " ".join(str(twice.iloc[0][column]) for column in ROW_KEY)
        raise UsageError(f"{source}: two rows for {key}; keep one of them")
    return rows.astype(dict.fromkeys(_TEXT_COLUMNS, "str"))


def empty_rows() -> pd.DataFrame:
    """Return a table of rows without any row."""
    return check_rows(pd.DataFrame({column: [] for column in ROW_COLUMNS}))


def replace_task(
    rows: pd.DataFrame, benchmark: str, task: str, new: pd.DataFrame, head: str = NO_HEAD
) -> pd.DataFrame:
    """Return ``rows`` with everything said about one task under one head replaced by ``new``.

    What was said of the task before there were heads goes too.
    """
    same = (rows["benchmark"] == benchmark) & (rows["task"] == task) & rows["head"].isin([head, NO_HEAD])
    kept, new = rows[~same], new.assign(head=head)
    rows = check_rows(pd.concat([kept, new]) if len(kept) else new)
    # Tasks may end in any order.
    return rows.sort_values(["benchmark", "task", "head"], kind="stable", ignore_index=True)


def write_rows(rows: pd.DataFrame, path: Path) -> Path:
    """Write rows as parquet, and beside it as CSV for those who open it by hand; each whole or not at all."""
    rows = check_rows(rows, source=str(path))
    write_atomically(path, lambda temporary: rows.to_parquet(temporary, index=False))
    write_atomically(path.with_suffix(".csv"), lambda temporary: rows.to_csv(temporary, index=False))
    return path


def read_rows(path: Path) -> pd.DataFrame:
    """Read rows from parquet.

    Raises:
        UsageError: If the file is absent, is not parquet, or is not a table of rows.
    """
    if not path.is_file():
        raise UsageError(f"no rows at {path}; evaluate the run first: python -m eval RUN")
    try:
        rows = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a parquet file: {error}") from error
    return check_rows(rows, source=str(path))
