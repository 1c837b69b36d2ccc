"""The corpus as the training loop reads it: packed token rows, built once and memory-mapped by every run.

``<runs_dir>/.cache/<fingerprint>/`` holds a corpus's tokenizer and tokens, and a folder of packed rows for
each block size. The fingerprint covers the corpus's content and the tokenizer, so all seeds and variants of a
study share one copy and a changed corpus gets a new one. Memory holds one shard of text or one window of rows
at a time, however large the corpus is.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from transformers import PreTrainedTokenizerFast

from base.errors import AbsentError, UsageError, naming
from base.families import get_family
from base.files import remove_leftovers
from base.records import peek_record, read_record
from base.text.tokens import refuse_unread
from pretrain.config import DataConfig, RunConfig
from pretrain.data import corpus
from pretrain.data.cache import (
    SPLITS,
    TOKENIZER,
    DType,
    RowsRecord,
    SplitSizes,
    TokensFolder,
    TokensRecord,
    row_files,
    rows_problem,
    seal_rows,
    tokens_problem,
    whole_rows,
)
from pretrain.data.found import Counting, Found, doubts, in_one_line, read_through
from pretrain.data.packing import pack
from pretrain.data.shards import every_second, read_shards, tokenise
from pretrain.data.tokenizer import add_sentinels, load_tokenizer, train_tokenizer

CACHE_VERSION = 2
"""Raised whenever the same settings would give other rows."""

MOST_TRIES = 2
"""How often a cache is made that is damaged right after it."""

LOOKED_AT = 1000
"""Documents that a tokenizer must tell apart before all are read."""

WINDOW_TOKENS = 2**23
"""Tokens packed at a time, which bounds memory; so many that packing all at once would fill no better."""


@dataclass(frozen=True)
class PackedSplit:
    """Packed rows of one split.

    Attributes:
        input_ids: (rows, T) token ids, memory-mapped.
        position_ids: (rows, T) positions, 0 where a document starts and on padding.
        num_documents: Documents in it.
        num_tokens: Tokens without padding.
    """

    input_ids: np.ndarray
    position_ids: np.ndarray
    num_documents: int
    num_tokens: int

    @property
    def fill(self) -> float:
        """Share of positions that hold a token."""
        return self.num_tokens / self.input_ids.size


@dataclass(frozen=True)
class PreparedData:
    """Tokenizer and packed splits of one corpus, and what was found in its text."""

    fingerprint: str
    found: Found
    tokenizer: PreTrainedTokenizerFast
    train: PackedSplit
    validation: PackedSplit


def prepare_data(config: RunConfig) -> PreparedData:
    """Tokenizer and packed rows of a run, from the cache or built into it.

    What is damaged is made again from the text. Every process checks what it is to read, as memory and disks
    err on one machine and not on another. Several may call this at once: one builds, the others wait for it.
    What an interruption leaves is continued by the next call.

    Raises:
        UsageError: If the corpus or the tokenizer cannot be used; the cache is then as before.
        OSError: For a fault of the world, such as a full disk.
    """
    data = config.data
    folder = _cache_folder(config)
    rows = _rows_folder(folder, data)
    prepared = _load_whole(data, folder, rows)
    for _ in range(MOST_TRIES):
        if prepared is not None:
            break
        with naming(folder), _sole_builder(folder):
            _make(data, folder, rows)
        prepared = _load_whole(data, folder, rows)
    if prepared is None:
        raise UsageError(f"{folder} was made again and is damaged again; check the disk")
    if get_family(config.family).objective == "span_corruption":
        add_sentinels(prepared.tokenizer)  # of this run alone: no document holds one
    return prepared


def cached_summary(config: RunConfig) -> dict[str, Any] | None:
    """Sizes of prepared data, or None where it has not been prepared yet, or is not here."""
    with contextlib.suppress(AbsentError):
        return peek_record(RowsRecord.file(_rows_folder(_cache_folder(config), config.data))) or None
    return None


def find(config: RunConfig) -> tuple[str, list[str]]:
    """What the text of a run holds, in one line, and doubts about it; reads it where it is not prepared yet.

    Raises:
        UsageError: If it cannot be read.
    """
    data = config.data
    if not corpus.files(data)["train"]:
        return corpus.describe(data), []
    text = read_text(config)
    return in_one_line(data, text), doubts(data, text)


def read_text(config: RunConfig) -> Found:
    """Count what the text of a run holds, by reading it unless just this text is prepared already."""
    record = peek_record(TokensRecord.file(_cache_folder(config)))
    names = [field.name for field in dataclasses.fields(Found)]
    is_known = record.keys() >= set(names)
    return Found(**{name: record[name] for name in names}) if is_known else read_through(config.data)


def tokens_fingerprint(data: DataConfig) -> str:
    """Identity of the tokens: the corpus's content, how it is read, the tokenizer."""
    fields = {"text_field", "max_documents", "max_validation_documents", "validation_fraction"}
    settings = data.model_dump(include=fields)
    if data.txt_split != DataConfig().txt_split:  # tokens from before there was a choice keep their name
        settings["txt_split"] = data.txt_split
    settings |= {"version": CACHE_VERSION, "source": data.source, "corpus": corpus.fingerprint(data)}
    if data.tokenizer:
        tokenizer = load_tokenizer(data.tokenizer).backend_tokenizer.to_str()
        settings["tokenizer"] = hashlib.sha256(tokenizer.encode()).hexdigest()
    else:
        settings["vocab_size"] = data.vocab_size
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def _cache_folder(config: RunConfig) -> Path:
    parts = (tokens_fingerprint(config.data), corpus.layout(config.data))
    return Path(config.output.runs_dir) / ".cache" / "-".join(filter(None, parts))


def _rows_folder(folder: Path, data: DataConfig) -> Path:
    return folder / f"rows-{data.block_size}"


@contextlib.contextmanager
def _sole_builder(folder: Path) -> Iterator[None]:
    """Build, or wait for the process that builds; after a user's mistake everything is as before."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.with_suffix(".lock"))
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            print("another process prepares this corpus; waiting for it", flush=True)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()
    except UsageError:
        Path(lock.lock_file).unlink(missing_ok=True)
        cache = folder.parent
        for made in (cache, cache.parent):
            with contextlib.suppress(OSError):  # not empty, so it was there before
                made.rmdir()
        raise


def _make(data: DataConfig, folder: Path, rows: Path) -> None:
    """Make what is missing, and make again what is damaged, which is told."""
    remove_leftovers(folder)
    are_tokens_needed = data.validation_part != "all"
    are_whole = rows.is_dir() and rows_problem(folder, rows, data.block_size) is None
    if are_whole and not (are_tokens_needed and tokens_problem(folder, "validation")):
        return
    partial = folder.with_suffix(".partial")
    if folder.is_dir() and (problem := tokens_problem(folder)):
        _tell_damage(problem)
        shutil.rmtree(partial, ignore_errors=True)
        os.replace(folder, partial)  # unfinished again; what of it is whole stays
    if not folder.is_dir():
        _write_tokens(data, folder, partial)
    if problem := rows_problem(folder, rows, data.block_size):
        if rows.is_dir():
            _tell_damage(problem)
        _write_rows(data, folder, rows)


def _tell_damage(problem: str) -> None:
    print(f"note: {problem}; made again", file=sys.stderr, flush=True)


def _write_tokens(data: DataConfig, folder: Path, partial: Path) -> None:
    """Fill the cache folder under another name, which an interruption leaves to be continued; then rename."""
    partial.mkdir(exist_ok=True)
    tokens = TokensFolder(partial)
    try:
        if not tokens.has_tokenizer:
            tokens.begin(_read_through(data, partial))
        assert tokens.record is not None
        tokenizer = load_tokenizer(partial / TOKENIZER)
        for split in SPLITS:
            texts, number = corpus.documents(data, split), tokens.record.split(split)
            tokenise(texts, number, tokenizer, partial, split, tokens.has, tokens.add)
    except UsageError:
        if tokens.record is None:
            shutil.rmtree(partial)
        raise
    remove_leftovers(partial)
    os.replace(partial, folder)


def _read_through(data: DataConfig, folder: Path) -> Found:
    """Read all of the text once, so that a mistake in it is told before hours of work; save the tokenizer."""
    print(f"reading {corpus.describe(data)}", flush=True)
    counting = Counting()
    if data.tokenizer:
        tokenizer = load_tokenizer(data.tokenizer)
        print(
            f"tokenizer of {data.tokenizer}: {len(tokenizer):,} tokens; a document is {tokenizer.bos_token} "
            f"... {tokenizer.eos_token}, rows are filled with {tokenizer.pad_token}",
            flush=True,
        )
        documents = counting.documents(data)
        refuse_unread(tokenizer, data.tokenizer, [*itertools.islice(documents, LOOKED_AT)])
        collections.deque(documents, maxlen=0)
    else:
        print(f"training a tokenizer of {data.vocab_size:,} tokens on it", flush=True)
        tokenizer = train_tokenizer(counting.documents(data), data.vocab_size)
    shutil.rmtree(folder / TOKENIZER, ignore_errors=True)
    tokenizer.save_pretrained(folder / TOKENIZER)
    if corpus.files(data)["train"]:
        for line in (f"found {in_one_line(data, counting.found)}", *doubts(data, counting.found)):
            print(line, flush=True)
    return counting.found


def _write_rows(data: DataConfig, folder: Path, rows: Path) -> None:
    """Pack all splits aside, then rename."""
    aside = rows.with_name(f"{rows.name}.tmp")
    shutil.rmtree(aside, ignore_errors=True)  # of a killed process
    try:
        aside.mkdir()
        tokenizer = load_tokenizer(folder / TOKENIZER)
        vocab_size, pad_token_id = len(tokenizer), int(tokenizer.pad_token_id)  # type: ignore[arg-type]
        train, validation = (
            _write_split(
                read_shards(folder, split),
                row_files(aside, split, vocab_size, data.block_size),
                split,
                data.block_size,
                pad_token_id,
            )
            for split in SPLITS
        )
        record = RowsRecord(vocab_size=vocab_size, train=train, validation=validation)
        seal_rows(folder, rows, record, aside)
        shutil.rmtree(rows, ignore_errors=True)
        os.replace(aside, rows)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)  # a full disk needs the space
        raise


def _write_split(
    shards: Iterator[tuple[np.ndarray, np.ndarray]],
    files: list[tuple[Path, DType]],
    split: str,
    block_size: int,
    pad_token_id: int,
) -> SplitSizes:
    """Pack one split window by window; returns its sizes."""
    num_documents = num_tokens = num_rows = num_cut = 0
    (ids_file, _), (positions_file, _) = files
    with ids_file.open("wb") as ids, positions_file.open("wb") as positions:
        for tokens, lengths in _windows(shards):
            input_ids, position_ids, cut = pack(tokens, lengths, block_size, pad_token_id)
            input_ids.tofile(ids)
            position_ids.tofile(positions)
            num_documents += len(lengths)
            num_tokens += len(tokens)
            num_rows += len(input_ids)
            num_cut += cut
    print(
        f"packed {num_documents:,} {split} documents, {num_tokens:,} tokens, into {num_rows:,} rows of "
        f"{block_size} ({num_tokens / (num_rows * block_size):.1%} filled, {num_cut / num_documents:.1%} of "
        "the documents cut)",
        flush=True,
    )
    return SplitSizes(num_documents=num_documents, num_tokens=num_tokens, num_rows=num_rows)


def _windows(shards: Iterator[tuple[np.ndarray, np.ndarray]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Join shards until a window is full; yields tokens of all documents, and (documents,) tokens of each."""
    tokens: list[np.ndarray] = []
    lengths: list[np.ndarray] = []
    for shard_tokens, offsets in shards:
        tokens.append(shard_tokens)
        lengths.append(np.diff(offsets))
        if sum(map(len, tokens)) >= WINDOW_TOKENS:
            yield np.concatenate(tokens), np.concatenate(lengths)
            tokens, lengths = [], []
    if tokens:
        yield np.concatenate(tokens), np.concatenate(lengths)


def _load_whole(data: DataConfig, folder: Path, rows: Path) -> PreparedData | None:
    """Load the tokenizer and map the rows; None where they are not there, or not as they were written."""
    try:
        record = whole_rows(folder, rows)
        prepared = None if record is None else _load(data, folder, rows, record)
        return _with_part(data, folder, prepared) if prepared else None
    except FileNotFoundError:  # another process has just begun to make them again
        return None


def _load(data: DataConfig, folder: Path, rows: Path, record: RowsRecord) -> PreparedData:
    tokenizer = load_tokenizer(folder / TOKENIZER)
    tokenizer.model_max_length = data.block_size
    splits = {
        split: PackedSplit(
            *(
                np.memmap(path, dtype, "r").reshape(-1, data.block_size)
                for path, dtype in row_files(rows, split, record.vocab_size, data.block_size)
            ),
            num_documents=record.split(split).num_documents,
            num_tokens=record.split(split).num_tokens,
        )
        for split in SPLITS
    }
    fingerprint = f"{folder.name.partition('-')[0]}-{rows.name}"
    return PreparedData(fingerprint, _found(folder, splits), tokenizer, **splits)


def _with_part(data: DataConfig, folder: Path, prepared: PreparedData) -> PreparedData | None:
    """Use only a part of the held-out documents; None where their tokens are not as they were written.

    They are packed by each process in memory, so that all parts share one cache: few texts are held out.
    """
    part = data.validation_part
    if part == "all":
        return prepared
    if tokens_problem(folder, "validation") is not None:
        return None
    shards = every_second(read_shards(folder, "validation"), first=("even", "odd").index(part))
    pad_token_id = int(prepared.tokenizer.pad_token_id)  # type: ignore[arg-type]
    windows = list(_windows(shards))
    if not windows:
        raise UsageError(
            f"data.validation_part {part}: the held-out text has one document, and none for this part; give "
            "more by --data.validation-files or a larger --data.validation-fraction"
        )
    packed = [pack(tokens, lengths, data.block_size, pad_token_id)[:2] for tokens, lengths in windows]
    input_ids, position_ids = (np.concatenate(arrays) for arrays in zip(*packed, strict=True))
    split = PackedSplit(
        input_ids,
        position_ids,
        num_documents=sum(len(lengths) for _, lengths in windows),
        num_tokens=sum(len(tokens) for tokens, _ in windows),
    )
    return dataclasses.replace(prepared, validation=split)


def _found(folder: Path, splits: dict[corpus.Split, PackedSplit]) -> Found:
    """What was found when the text was read; without its size where that record is lost."""
    known = read_record(TokensRecord.file(folder), TokensRecord)
    return known or Found(**{name: splits[name].num_documents for name in splits})
