"""Reading evaluation data from a folder or the hub."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from base import files
from base.errors import UsageError
from base.records import parse_json

# The BabyLM pipelines name their JSON Lines files ``.json``.
DATA_SUFFIXES = (".jsonl.gz", ".jsonl", ".json.gz", ".json")
TABLE_SUFFIXES = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
PARQUET = ".parquet"
INTEGER = r"-?(?:0|[1-9]\d*)"


def list_data_files(folder: Path) -> dict[str, Path]:
    """Return the data files of a folder by name without suffix, in alphabetical order."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    suffixes = [next(filter(path.name.endswith, DATA_SUFFIXES), "") for path in files]
    pairs = zip(files, suffixes, strict=True)
    return {path.name.removesuffix(suffix): path for path, suffix in pairs if suffix}


def read_rows(path: Path, columns: Iterable[str], texts: Iterable[str] = ()) -> list[dict]:
    """Read the rows of a file: JSON Lines or one JSON array, CSV, TSV, each also gzipped, or Parquet.

    Args:
        path: Its suffix says of what kind it is.
        columns: What every row must have.
        texts: Columns of a table that hold text, whatever it looks like.

    Raises:
        UsageError: Names the file, the row (from 1) and the column at fault.
    """
    columns = tuple(columns)
    separator = next((sep for suffix, sep in TABLE_SUFFIXES.items() if path.name.endswith(suffix)), None)
    try:
        if separator is not None:
            rows = _read_table(path, separator, texts)
        elif path.suffix == PARQUET:
            rows = pq.read_table(path).to_pylist()
        else:
            rows = _read_json(path)
    except (OSError, EOFError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {' '.join(str(error).split())}") from error
    if not rows:
        raise UsageError(f"{path} holds no rows; expected some with {', '.join(columns)}")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise UsageError(f"{path}, row {number}: not a JSON object but {type(row).__name__}")
        for column in columns:
            if row.get(column) is None:
                present = ", ".join(map(repr, row)) or "none"
                raise UsageError(f"{path}, row {number}: no column {column!r}; it has {present}")
    return rows


def _read_table(path: Path, separator: str, texts: Iterable[str]) -> list[dict]:
    # Nothing is guessed: "NA", "None" and "True" are texts, and labels.
    table = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False).astype(object)
    for name in table.columns.difference(list(texts)):
        if table[name].str.fullmatch(INTEGER).all():
            table[name] = table[name].map(int).astype(object)
    return table.to_dict("records")


def _read_json(path: Path) -> list:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    if text.lstrip().startswith("["):
        try:
            return parse_json(text)
        except ValueError as error:
            raise UsageError(f"{path} is not valid JSON: {error}") from error
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(parse_json(line))
        except ValueError as error:
            raise UsageError(f"{path}, line {number}: not valid JSON: {error}") from error
    return rows


def fingerprint(paths: Iterable[Path]) -> str:
    """Return 16 hexadecimal digits that change with the content of any of the files, wherever they lie."""
    return files.fingerprint((path.name, files.sha256_once(path)) for path in paths)
