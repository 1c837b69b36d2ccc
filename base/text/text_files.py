"""Reading documents from local files: which files there are, and in one line what is wrong with one."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Literal

import pyarrow
import pyarrow.parquet

from base.errors import AbsentError, UsageError, first_line, near_file, unexpanded
from base.records import parse_json

_NOT_SHIPPED = {
    "filter-data": "the folder filter-data of github.com/babylm/evaluation-pipeline-2023",
    "evaluation_data": "that of github.com/babylm/evaluation-pipeline-2025",
    "babylm": "the text of BabyLM 2023 (babylm.github.io)",
}
"""Where shipped studies look for data, and what it is."""


def absent(path: Path, message: str) -> UsageError:
    """Build the error for a file or folder that is not there; an ``AbsentError`` where shipped studies look.

    Args:
        path: As it was named.
        message: What is said where no shipped study names it.
    """
    place = next((place for place in _NOT_SHIPPED if path.is_relative_to(place)), None)
    if place is None:
        return UsageError(message)
    return AbsentError(
        f"{path}: not here, as {_NOT_SHIPPED[place]} does not ship; put it there, or link your copy, "
        f"ln -s FOLDER {place} (docs/studies.md, Data that do not ship)"
    )


_HELD_OUT = re.compile(r"(?<![a-z])(val|valid|validation|dev|held[-_]?out|test(?!_))(?![a-z])")
"""What names, in small letters, a text that is not for training."""

FORMATS = (".jsonl", ".jsonl.gz", ".parquet", ".txt", ".txt.gz")


def format_of(path: Path) -> str | None:
    """The format that a file's name says, in small letters; None for one that is not read."""
    name = path.name.lower()
    return next((ending for ending in sorted(FORMATS, key=len, reverse=True) if name.endswith(ending)), None)


def is_plain_text(path: Path) -> bool:
    """Whether a file is split into documents by ``txt_split``."""
    return (format_of(path) or "").startswith(".txt")


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Put the files in place of each folder: all that can be read, at any depth, in the order of their names.

    Hidden files and folders are left out, and so are files of other formats.

    Raises:
        UsageError: For a folder with no file that can be read, or with files of more than one kind.
    """
    return [file for path in paths for file in (_files_in(path) if path.is_dir() else [path])]


def others_in(paths: Iterable[Path]) -> str:
    """Count the files of other formats that stand in folders, which are not read: ``2 .png, 1 .csv``."""
    found = [file for path in paths if path.is_dir() for file in _visible(path) if not format_of(file)]
    endings = Counter(file.suffix or file.name for file in found).most_common(5)
    return ", ".join(f"{number} {ending}" for ending, number in endings)


def names_held_out(file: Path) -> bool:
    """Whether a file's name, or that of its folder, says that it is not for training: validation, test."""
    return bool(_HELD_OUT.search(f"{file.parent.name}/{file.name}".lower()))


def describe_overlap(shared: int, held_out: int) -> str:
    """Say that so many held-out documents are trained on too, and what to do."""
    return (
        f"{shared:,} of {held_out:,} held-out documents are also trained on, and learnt by heart lower the "
        "loss; have each once (sort -u FILE > NEW, if one is a line), or others in data.validation_files"
    )


def check_file(path: Path) -> None:
    """Refuse a path that is no readable corpus file.

    Raises:
        UsageError: If the file is missing, a folder, or of an unknown format.
    """
    if path.is_dir():
        raise UsageError(f"{path}: is a folder, and one file is needed, for example {path}/train.jsonl")
    if not path.is_file():
        hub = "; from the hub: load_dataset(NAME, split='train').to_json('texts.jsonl')" * (not path.suffix)
        raise absent(path, f"{path}: no such file; {near_file(path)}check the path{unexpanded(path)}{hub}")
    if format_of(path) is None:
        raise UsageError(
            f"{path}: unknown format; allowed are {', '.join(FORMATS)}; plain text by another name must end "
            "in .txt, and a table becomes one by pandas' to_json(..., orient='records', lines=True)"
        )


def _files_in(folder: Path) -> list[Path]:
    files = [path for path in _visible(folder) if format_of(path)]
    kinds = Counter(str(format_of(path)).removesuffix(".gz") for path in files)
    if not kinds:
        others = others_in([folder]) or "no files"
        cure = "; datasets.load_from_disk(FOLDER).to_json('texts.jsonl') writes one" * (".arrow" in others)
        known = ", ".join(FORMATS)
        raise UsageError(f"{folder}: has no file of a known format ({known}); it has {others}{cure}")
    if len(kinds) > 1:
        counts = ", ".join(f"{number} {ending}" for ending, number in kinds.most_common())
        raise UsageError(
            f"{folder}: has files of several kinds ({counts}); name those that are meant, for example "
            f"{folder}/*{kinds.most_common(1)[0][0]}"
        )
    return files


def _visible(folder: Path) -> list[Path]:
    """All files below a folder in an order that is the same on every machine."""
    files = [(path.relative_to(folder).parts, path) for path in folder.rglob("*") if path.is_file()]
    return [path for parts, path in sorted(files) if not any(part.startswith(".") for part in parts)]


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


def begins_as_jsonl(path: Path) -> bool:
    """Whether a .txt begins as lines of JSON do: by its bytes alone it could be taken for a .jsonl."""
    # A broken archive is told by whoever reads all of it.
    with contextlib.suppress(EOFError, zlib.error, gzip.BadGzipFile), _open(path) as file:
        return is_plain_text(path) and file.read(2**10).lstrip().startswith(b"{")
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
        raise UsageError(f"{path}: is not a readable parquet file ({first_line(error)})") from None


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
            text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if b"\0" in text:
                is_utf16 = line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                convert = f"write iconv -f UTF-16 -t UTF-8 {path} > new.txt"
                cure = convert if is_utf16 else "this is no text file"
                raise UsageError(f"{path}: line {number} holds a NUL byte; {cure}")
            yield text.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UsageError(
            f"{path}: line {number} is not UTF-8 text (byte 0x{byte:02x}); convert the file to UTF-8, as in "
            f"iconv -f WINDOWS-1252 -t UTF-8 {path} > new.txt"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(
            f"{path}: broken gzip file after line {number} ({first_line(error)}); copy it again"
        ) from None


def _split_at_markers(lines: Iterator[str]) -> Iterator[str]:
    """Split at end-of-document markers; a text without any is one document."""
    document: list[str] = []
    for line in lines:
        *ends, beginning = line.split(END_OF_DOCUMENT)
        for end in ends:
            yield "".join([*document, end])
            document = []
        document.append(beginning)
    yield "".join(document)


def _from_json(line: str, text_field: str, where: str) -> str:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise UsageError(f"{where}: is not JSON ({error}); each line must be one object") from None
    if not isinstance(row, dict):
        raise UsageError(f"{where}: is a JSON {type(row).__name__}; each line must be one object")
    if text_field not in row:
        raise _without_field(where, text_field, list(row))
    return _checked(row[text_field], text_field, where)


def _checked(value: object, text_field: str, where: str) -> str:
    if not isinstance(value, str):
        kind = "null" if value is None else type(value).__name__
        raise UsageError(f"{where}: field {text_field!r} holds {kind}, expected text; correct or remove it")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # JSON can spell one half of a surrogate pair
        half = ascii(value[error.start])
        raise UsageError(f"{where}: field {text_field!r} holds {half}, which is no character") from None
    return value


def _without_field(where: str, text_field: str, fields: list[str]) -> UsageError:
    return UsageError(f"{where}: no field {text_field!r} (has: {', '.join(fields)}); set --data.text-field")
