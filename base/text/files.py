"""Reading documents from local files, and saying in one line what is wrong with a file."""

from __future__ import annotations

import codecs
import gzip
import itertools
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Literal

import pyarrow
import pyarrow.parquet

from base.errors import UsageError
from base.json_text import parse_json
from base.text.paths import check_file, format_of, is_plain_text

END_OF_DOCUMENT = "<|endoftext|>"
"""Line that separates the stories in TinyStories' own .txt files."""

TextSplit = Literal["endoftext", "lines", "blank-lines", "file"]
"""What ends a document of a .txt file: a marker, the line, blank lines, or the end of the file."""

MOST_LINES = 100
"""A text of more lines without a marker is no document that somebody forgot to split."""

MOST_CHARACTERS = 100_000
"""Nor is a longer one, however few its lines are, if it has more than one."""


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
        UsageError: If a long .txt has no marker and is to be split at markers.
    """
    if txt_split != "endoftext" or not is_plain_text(path):
        return
    lines = paragraphs = characters = 0
    after_blank = True
    with _open(path) as file:
        for line in _text_lines(file, path):
            if END_OF_DOCUMENT in line:
                return
            is_text = bool(line.strip())
            lines += is_text
            paragraphs += is_text and after_blank
            after_blank = not is_text
            characters += len(line)
    if lines > MOST_LINES or (lines > 1 and characters > MOST_CHARACTERS):
        raise UsageError(
            f"{path}: 1 document in {lines:,} lines, as none has {END_OF_DOCUMENT}; one a line needs "
            f"--data.txt-split lines, one a paragraph blank-lines ({paragraphs:,} of them), and if all of it "
            "is one, file"
        )


def has_blank_lines(path: Path) -> bool:
    """Whether the first thousand lines of a .txt have empty ones between them; False for other formats."""
    if not is_plain_text(path):
        return False
    with _open(path) as file:
        lines = [bool(line.strip()) for line in itertools.islice(_text_lines(file, path), 1000)]
    written = [number for number, is_text in enumerate(lines) if is_text]
    return bool(written) and not all(lines[written[0] : written[-1]])


def is_read_anew(path: Path) -> bool:
    """Whether a .txt is read into other documents than before byte order marks and CR LF were known.

    Also true where the same bytes would be the lines of a .jsonl, so that they are told apart.
    """
    if not is_plain_text(path):
        return False
    try:
        with _open(path) as file:
            start = file.read(2**20)
            if start.startswith(codecs.BOM_UTF8) or start.lstrip().startswith(b"{"):
                return True
            while start:
                if b"\r" in start:
                    return True
                start = file.read(2**20)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        pass  # told by whoever reads it
    return False


def _documents(path: Path, text_field: str, txt_split: TextSplit) -> Iterator[str]:
    if format_of(path) == ".parquet":
        return _parquet(path, text_field)
    if is_plain_text(path):
        return _from_text(path, txt_split)
    return _from_lines(path, text_field)


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
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _text_lines(file: IO[bytes], path: Path) -> Iterator[str]:
    """Decode line by line, so that a mistake has a line number; CR LF ends a line as LF does."""
    number = 0
    try:
        for number, line in enumerate(file, start=1):
            text = _start(line, path) if number == 1 else line
            if b"\0" in text:
                raise UsageError(f"{path}: line {number} holds a NUL byte; this is not a text file")
            yield text.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UsageError(
            f"{path}: line {number} is not UTF-8 text (byte 0x{byte:02x}); convert the file to UTF-8, as in "
            f"iconv -f WINDOWS-1252 -t UTF-8 {path.name} > new.txt"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(
            f"{path}: broken gzip file after line {number} ({_first_line(error)}); copy it again"
        ) from None


def _start(line: bytes, path: Path) -> bytes:
    """The first line without a byte order mark.

    Raises:
        UsageError: If the file begins as one of another encoding, or as an archive.
    """
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError(
            f"{path}: is UTF-16 text; convert it to UTF-8: iconv -f UTF-16 -t UTF-8 {path.name} > new.txt"
        )
    if line.startswith(b"\x1f\x8b"):
        raise UsageError(f"{path}: is a gzip archive; its name must end in .gz")
    return line.removeprefix(codecs.BOM_UTF8)


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
        row = parse_json(line)
    except ValueError as error:
        reason = getattr(error, "msg", error)
        raise UsageError(f"{where}: is not JSON ({reason}); each line must be one object") from None
    if not isinstance(row, dict):
        raise UsageError(f"{where}: is a JSON {type(row).__name__}; each line must be one object")
    if text_field not in row:
        raise _without_field(where, text_field, list(row))
    return _checked(row[text_field], text_field, where)


def _checked(value: object, text_field: str, where: str) -> str:
    if not isinstance(value, str):
        found = "null" if value is None else type(value).__name__
        raise UsageError(f"{where}: field {text_field!r} holds {found}, expected text; correct or remove it")
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
