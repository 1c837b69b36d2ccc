"""Reading documents from local files, and saying in one line what is wrong with a file."""

from __future__ import annotations

import gzip
import itertools
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Literal

import pyarrow
import pyarrow.parquet

from base.errors import UsageError

END_OF_DOCUMENT = "<|endoftext|>"
"""Line that separates the stories in TinyStories' own .txt files."""

FORMATS = (".jsonl", ".jsonl.gz", ".parquet", ".txt", ".txt.gz")

TextSplit = Literal["endoftext", "lines", "blank-lines", "file"]
"""What ends a document of a .txt file: a marker, the line, blank lines, or the end of the file."""

MOST_LINES = 100
"""A text of more lines without a marker is no document that somebody forgot to split."""


def read_documents(
    paths: Iterable[Path], text_field: str, txt_split: TextSplit = "endoftext"
) -> Iterator[str]:
    """Yield the documents of several files in order, stripped, without empty ones.

    Args:
        paths: The files.
        text_field: Field or column that holds the document in jsonl and parquet files.
        txt_split: What ends a document of a .txt file.

    Raises:
        UsageError: For a missing file, an unknown format, a broken archive, bytes that are not UTF-8 text, or
            a row without its field; names file and line.
    """
    for path in paths:
        check_file(path)
        for document in _documents(path, text_field, txt_split):
            if stripped := document.strip():
                yield stripped


def check_split(path: Path, txt_split: TextSplit) -> None:
    """Refuse a text that would be one document and looks like many.

    Raises:
        UsageError: If a .txt of many lines has no marker and is to be split at markers.
    """
    if txt_split != "endoftext" or not path.name.endswith((".txt", ".txt.gz")):
        return
    lines = 0
    with _open(path) as file:
        for line in _text_lines(file, path):
            if END_OF_DOCUMENT in line:
                return
            lines += bool(line.strip())
    if lines > MOST_LINES:
        raise UsageError(
            f"{path}: 1 document in {lines:,} lines, as none has {END_OF_DOCUMENT}; one a line needs "
            "--data.txt-split lines, one a paragraph blank-lines, and if all of it is one, file"
        )


def _documents(path: Path, text_field: str, txt_split: TextSplit) -> Iterator[str]:
    if path.suffix == ".parquet":
        return _parquet(path, text_field)
    if path.name.endswith((".txt", ".txt.gz")):
        return _from_text(path, txt_split)
    return _from_lines(path, text_field)


def check_file(path: Path) -> None:
    """Refuse a path that is no readable corpus file.

    Raises:
        UsageError: If the file is missing, a folder, or of an unknown format.
    """
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; give the files in it, for example {path}/train.jsonl")
    if not path.is_file():
        raise UsageError(f"{path}: no such file; check the path")
    if not path.name.endswith(FORMATS):
        raise UsageError(f"{path}: unknown format; allowed are {', '.join(FORMATS)}")


def _parquet(path: Path, text_field: str) -> Iterator[str]:
    try:
        file = pyarrow.parquet.ParquetFile(path)
        if text_field not in file.schema_arrow.names:
            raise _without_field(f"{path}", text_field, file.schema_arrow.names)
        row = 0
        for batch in file.iter_batches(columns=[text_field]):
            for value in batch.column(0).to_pylist():
                row += 1
                yield _checked(value, text_field, f"{path}: row {row}")
    except (pyarrow.ArrowException, OSError) as error:
        raise UsageError(f"{path}: is not a readable parquet file ({_first_line(error)})") from None


def _from_lines(path: Path, text_field: str) -> Iterator[str]:
    with _open(path) as file:
        for number, line in enumerate(_text_lines(file, path), start=1):
            if line.strip():
                yield _from_json(line, text_field, f"{path}: line {number}")


def _from_text(path: Path, txt_split: TextSplit) -> Iterator[str]:
    with _open(path) as file:
        lines = _text_lines(file, path)
        if txt_split == "lines":
            yield from lines
        elif txt_split == "file":
            yield "".join(lines)
        elif txt_split == "blank-lines":
            for is_text, paragraph in itertools.groupby(lines, lambda line: bool(line.strip())):
                if is_text:
                    yield "".join(paragraph)
        else:
            yield from _split_at_markers(lines)


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _text_lines(file: IO[bytes], path: Path) -> Iterator[str]:
    """Decode line by line, so that a mistake has a line number."""
    number = 0
    try:
        for number, line in enumerate(file, start=1):
            if b"\0" in line:
                raise UsageError(f"{path}: line {number} holds a NUL byte; this is not a text file")
            yield line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UsageError(
            f"{path}: line {number} is not UTF-8 text (byte 0x{byte:02x}); convert the file to UTF-8"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(
            f"{path}: broken gzip file after line {number} ({_first_line(error)}); copy it again"
        ) from None


def _split_at_markers(lines: Iterator[str]) -> Iterator[str]:
    """Split at end-of-document markers; a text without any is one document."""
    document: list[str] = []
    for line in lines:
        *ended, rest = line.split(END_OF_DOCUMENT)
        for part in ended:
            yield "".join([*document, part])
            document = []
        document.append(rest)
    yield "".join(document)


def _from_json(line: str, text_field: str, where: str) -> str:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where}: is not JSON ({error.msg}); each line must be one object") from None
    if not isinstance(row, dict):
        raise UsageError(f"{where}: is a JSON {type(row).__name__}; each line must be one object")
    if text_field not in row:
        raise _without_field(where, text_field, list(row))
    return _checked(row[text_field], text_field, where)


def _checked(value: object, text_field: str, where: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{where}: field {text_field!r} holds {type(value).__name__}, expected text")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # JSON can spell one half of a surrogate pair
        half = ascii(value[error.start])
        raise UsageError(f"{where}: field {text_field!r} holds {half}, which is no character") from None
    return value


def _without_field(where: str, text_field: str, fields: list[str]) -> UsageError:
    return UsageError(
        f"{where}: has no field {text_field!r} (has: {', '.join(fields)}); set --data.text-field"
    )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
