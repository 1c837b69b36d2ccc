"""What of a prepared corpus can be believed: each file by its size, and once in a process by its checksum.

A cache folder holds the tokens and their tokenizer, listed in ``documents.json``, and a folder of packed rows
for each block size, whose ``summary.json`` lists all that a run reads: the rows and the tokenizer. A cache of
before checksums were kept is compared with the counts that it has, and gets checksums when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from base.files import FileState, damage, file_states
from base.records import read_record, write_record
from pretrain.data.corpus import Split
from pretrain.data.found import Found
from pretrain.data.shards import read_shards, token_dtype
from pretrain.data.tokenizer import load_tokenizer

SPLITS: tuple[Split, ...] = ("train", "validation")

DType = type[np.unsignedinteger[Any]]

TOKENIZER = "tokenizer"
"""Name of the tokenizer's folder in the cache folder."""


@dataclass(frozen=True, kw_only=True)
class TokensRecord(Found):
    """What the tokens folder holds: what was found in the text, and its files by name."""

    files: dict[str, FileState] = field(default_factory=dict)

    @staticmethod
    def file(folder: Path) -> Path:
        """Where it stands."""
        return folder / "documents.json"

    def split(self, name: str) -> int:
        """The number of documents of a split by its name."""
        return getattr(self, name)


@dataclass(frozen=True, kw_only=True)
class SplitSizes:
    """Sizes of a packed split; tokens are counted without padding."""

    num_documents: int
    num_tokens: int
    num_rows: int


@dataclass(frozen=True, kw_only=True)
class RowsRecord:
    """What a folder of rows holds, and by name below the cache folder the files that a run reads."""

    vocab_size: int
    train: SplitSizes
    validation: SplitSizes
    files: dict[str, FileState] = field(default_factory=dict)

    @staticmethod
    def file(rows: Path) -> Path:
        """Where it stands."""
        return rows / "summary.json"

    def split(self, name: str) -> SplitSizes:
        """The sizes of a split by its name."""
        return getattr(self, name)


def row_files(rows: Path, split: str, vocab_size: int, block_size: int) -> list[tuple[Path, DType]]:
    """The files of a split's ``input_ids`` and ``position_ids``, and the type of the numbers in each."""
    dtypes = {"input_ids": token_dtype(vocab_size), "position_ids": token_dtype(block_size)}
    return [(rows / f"{split}.{name}.bin", dtype) for name, dtype in dtypes.items()]


def tokenizer_files(folder: Path) -> list[Path]:
    """The files of the tokenizer in a cache folder."""
    return sorted(path for path in (folder / TOKENIZER).glob("*") if path.is_file())


def whole_rows(folder: Path, rows: Path) -> RowsRecord | None:
    """Return what a folder of rows holds, if its files are as when they were written.

    Args:
        folder: The cache folder.
        rows: The folder of rows in it.
    """
    record = read_record(RowsRecord.file(rows), RowsRecord)
    return None if record is None or not record.files or damage(folder, record.files) else record


def rows_problem(folder: Path, rows: Path, block_size: int) -> str | None:
    """Say what is wrong with rows, or None; rows of before checksums get theirs if nothing is."""
    record = read_record(RowsRecord.file(rows), RowsRecord)
    if record is None:
        return f"{RowsRecord.file(rows)} is damaged or gone"
    if record.files:
        return _first(folder, damage(folder, record.files))
    try:
        _compare_counts(folder, rows, record, block_size)
    except (OSError, ValueError) as error:
        return f"{rows}: {error}"
    seal_rows(folder, rows, record)
    return None


def tokens_problem(folder: Path, split: Split | None = None) -> str | None:
    """Say what is wrong with tokens, or None; tokens of before checksums get theirs if nothing is.

    Args:
        folder: The cache folder.
        split: Look at the shards of this split alone; all files of the record otherwise.
    """
    record = read_record(TokensRecord.file(folder), TokensRecord)
    if record is None:
        return f"{TokensRecord.file(folder)} is damaged or gone"
    if record.files:
        asked = {name: state for name, state in record.files.items() if name.startswith(split or "")}
        return _first(folder, damage(folder, asked))
    try:
        load_tokenizer(folder / TOKENIZER)
        for split in SPLITS:
            found = sum(len(offsets) - 1 for _, offsets in read_shards(folder, split))
            if found != record.split(split):
                raise ValueError(f"has {found:,} {split} documents, and had {record.split(split):,}")
    except (OSError, ValueError) as error:
        return f"{folder}: {error}"
    files = [*tokenizer_files(folder), *sorted(folder.glob("*.npy"))]
    write_record(TokensRecord.file(folder), replace(record, files=file_states(folder, files)))
    return None


def seal_rows(folder: Path, rows: Path, record: RowsRecord, aside: Path | None = None) -> None:
    """Write what rows are, with the checksums of all that a run reads.

    Args:
        folder: The cache folder.
        rows: The folder of rows.
        record: Their sizes.
        aside: Where they lie until they have their name.
    """
    now = aside or rows
    states = file_states(now, sorted(now.glob("*.bin")))
    files = {f"{rows.name}/{name}": state for name, state in states.items()}
    files |= file_states(folder, tokenizer_files(folder))
    write_record(RowsRecord.file(now), replace(record, files=files))


class TokensFolder:
    """A tokens folder that is being filled: what its record lists, and is so, need not be made again.

    Args:
        folder: The folder; it must exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = read_record(TokensRecord.file(folder), TokensRecord)
        known = self.record.files if self.record else {}
        wrong = damage(folder, known)
        self._tokenizer = {name: known[name] for name in known if name.startswith(f"{TOKENIZER}/")}
        self._shards = {name: known[name] for name in known if name not in {*wrong, *self._tokenizer}}
        self.has_tokenizer = bool(self._tokenizer) and not self._tokenizer.keys() & wrong.keys()
        """Whether the tokenizer is whole; it was then trained, and the text read through once."""

    def begin(self, found: Found) -> None:
        """Note what was found in the text and the tokenizer; shards of another tokenizer count no more."""
        files = file_states(self.folder, tokenizer_files(self.folder))
        if files != self._tokenizer:
            self._shards = {}
        self._tokenizer = files
        self._write(found)

    def has(self, paths: Iterable[Path]) -> bool:
        """Whether shards' files are whole."""
        return {path.name for path in paths} <= self._shards.keys()

    def add(self, paths: Iterable[Path]) -> None:
        """Note the files of a shard that was made."""
        assert self.record is not None
        self._shards |= file_states(self.folder, paths)
        self._write(self.record)

    def _write(self, found: Found) -> None:
        files = dict(sorted((self._tokenizer | self._shards).items()))
        counts: dict[str, Any] = {each.name: getattr(found, each.name) for each in fields(Found)}
        self.record = TokensRecord(**counts, files=files)
        write_record(TokensRecord.file(self.folder), self.record)


def _compare_counts(folder: Path, rows: Path, record: RowsRecord, block_size: int) -> None:
    """Compare rows with what was counted when they were packed.

    Raises:
        ValueError: Where they differ, or if the tokenizer cannot be loaded.
    """
    pad_token_id = load_tokenizer(folder / TOKENIZER).pad_token_id
    for split in SPLITS:
        sizes, files = record.split(split), row_files(rows, split, record.vocab_size, block_size)
        ids, positions = (np.memmap(path, dtype, "r") for path, dtype in files)
        windows = (ids[start : start + 2**24] for start in range(0, len(ids), 2**24))
        num_tokens = sum(int((window != pad_token_id).sum()) for window in windows)
        if (num_tokens, len(ids), len(positions)) != (sizes.num_tokens, *[sizes.num_rows * block_size] * 2):
            raise ValueError(f"its {split} rows are not those that were packed")


def _first(folder: Path, wrong: dict[str, str]) -> str | None:
    """Name the first damaged file and count the others."""
    if not wrong:
        return None
    name, words = next(iter(wrong.items()))
    return f"{folder / name} {words}" + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else "")
