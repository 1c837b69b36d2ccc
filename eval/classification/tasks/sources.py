"""Where the rows of a task lie: in files of its own, in a folder of tasks, or on the hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from base.errors import UsageError
from base.text.paths import absent
from eval.classification.tasks.schema import HubSource
from eval.files import DATA_SUFFIXES, list_data_files, read_hub_rows, read_json_rows

TABLE_SUFFIXES = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
PARQUET = ".parquet"
INTEGER = r"-?(?:0|[1-9]\d*)"


def check_file(path: Path) -> Path:
    """Return the path of a task's file.

    Raises:
        UsageError: If there is no such file, or it is of a kind that cannot be read.
    """
    suffixes = (*DATA_SUFFIXES, *TABLE_SUFFIXES, PARQUET)
    if not path.name.endswith(suffixes):
        raise UsageError(f"{path}: a task's files end in {', '.join(suffixes)}; convert it to one of them")
    if not path.is_file():
        raise UsageError(
            f"no file {path}; a relative path under files: starts at the folder of the task's file"
        )
    return path


def read_file(path: Path, columns: Sequence[str], texts: Sequence[str]) -> list[dict]:
    """Read a file's rows.

    Args:
        path: Its suffix says of what kind it is.
        columns: What every row must have.
        texts: Columns of a table that hold text, whatever it looks like.

    Raises:
        UsageError: For a file that cannot be read or has no rows, or a column that is absent.
    """
    check_file(path)
    for suffix, separator in TABLE_SUFFIXES.items():
        if path.name.endswith(suffix):
            return _checked(_read_table(path, separator, texts), columns, path)
    if path.name.endswith(PARQUET):
        return _checked(_read_parquet(path), columns, path)
    return read_json_rows(path, columns)


def _read_table(path: Path, separator: str, texts: Sequence[str]) -> list[dict]:
    try:
        # Nothing is guessed: "NA", "None" and "True" are texts, and labels.
        table = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"cannot read {path}: {reason}; expected UTF-8 with a row of column names"
        ) from error
    table = table.astype(object)
    for name in table.columns.difference(list(texts)):
        if table[name].str.fullmatch(INTEGER).all():
            table[name] = table[name].map(int).astype(object)
    return table.to_dict("records")


def _read_parquet(path: Path) -> list[dict]:
    try:
        return pq.read_table(path).to_pylist()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {' '.join(str(error).split())}") from error


def _checked(rows: list[dict], columns: Sequence[str], path: Path) -> list[dict]:
    if not rows:
        raise UsageError(f"{path} holds no rows; it must hold an example or more")
    for column in columns:
        if column not in rows[0]:
            raise UsageError(f"{path}, row 1: no column {column!r}; it has {', '.join(map(repr, rows[0]))}")
    return rows


def find_in_folder(name: str, task: str, folder: Path, flag: str) -> Path:
    """Find a file in a folder of tasks.

    Args:
        name: Of the file, without suffix.
        task: The task that needs it.
        folder: Where to look.
        flag: Which flag named the folder.

    Raises:
        UsageError: If the folder or the file is absent; says which names are looked for.
    """
    if not folder.is_dir():
        must = f"{flag} must hold <task>.train.jsonl and .validation.jsonl"
        raise absent(folder, f"no folder {folder}; {must}")
    files = list_data_files(folder)
    if name not in files:
        raise UsageError(f"{folder} has no {name}.jsonl, .jsonl.gz or .json; add it or leave {task} out")
    return files[name]


def read_hub(hub: HubSource, split: str, instead: str) -> list[dict]:
    """Read a split of a data set of the hub.

    Raises:
        UsageError: If it cannot be loaded; says what to do instead.
    """
    name = hub.train if split == "train" else hub.validation
    return read_hub_rows(hub.path, hub.name, name, instead, revision=hub.revision, data_dir=hub.data_dir)
