"""The corpus as the training loop reads it: packed token rows, built once and memory-mapped by every run.

``<runs_dir>/.cache/<fingerprint>/`` holds a corpus's tokenizer, the numbers of its documents, and a folder of
packed rows for each block size. The fingerprint covers the corpus's content and the tokenizer, so all seeds
and variants of a study share one copy and a changed corpus gets a new one. Memory holds the text of one shard
and the tokens of one window at a time, however large the corpus is.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock

from base.errors import AbsentError, UsageError, naming
from base.families import get_family
from base.printing import ProgressBar
from base.records import peek_record, read_record, write_record
from base.text.tokens import refuse_unread
from pretrain.config import DataConfig, ResolvedConfig
from pretrain.data import corpus
from pretrain.data.corpus import Split
from pretrain.data.packing import PackedSplit, pack
from pretrain.data.text_summary import Counting, TextSummary, doubts, in_one_line, read_through
from pretrain.data.tokenizer import (
    add_sentinels,
    load_tokenizer,
    token_dtype,
    tokenise,
    train_tokenizer,
    until_full,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CACHE_VERSION = 2
"""Raised whenever the same settings would give other rows."""

TOKENIZER, TEXT_SUMMARY = "tokenizer", "documents.json"
"""In the folder of a corpus: its tokenizer, and a ``TextSummary``."""

ROWS_SUMMARY = "summary.json"
"""In a folder of rows: a ``RowsSummary``."""

DOCUMENTS_TO_TRY = 1000
"""Documents that a tokenizer must tell apart before all are read."""

WINDOW_TOKENS = 2**23
"""Tokens packed at a time, which bounds memory; so many that packing all at once would fill no better."""

TOKENS_TO_COUNT = 2**22
"""Tokens counted at a time, so that memory stays small however large the corpus is."""


@dataclass(frozen=True)
class PreparedData:
    """Tokenizer and packed splits of one corpus, and what its text holds."""

    fingerprint: str
    text: TextSummary
    tokenizer: PreTrainedTokenizerFast
    train: PackedSplit
    validation: PackedSplit


@dataclass(frozen=True, kw_only=True)
class SplitSizes:
    """Sizes of a packed split; tokens are counted without padding."""

    num_documents: int
    num_tokens: int
    num_rows: int


@dataclass(frozen=True, kw_only=True)
class RowsSummary:
    """What a folder of rows holds."""

    vocab_size: int
    train: SplitSizes
    validation: SplitSizes


def prepare_data(config: ResolvedConfig) -> PreparedData:
    """Tokenizer and packed rows of a run, from the cache or built into it.

    Files of another size than their summary says are made again from the text. Several processes may call
    this at once: one builds, the others wait for it.

    Raises:
        UsageError: If the corpus or the tokenizer cannot be used; the cache is then as before.
        OSError: For a fault of the world, such as a full disk.
    """
    data = config.data
    folder = _cache_folder(config)
    rows = _rows_folder(folder, data)
    prepared = _load(data, folder, rows)
    if prepared is None:
        with naming(folder), _sole_builder(folder):
            prepared = _make(data, folder, rows)
    elif prepared.text.shared and os.environ.get("RANK", "0") == "0":
        print(next(doubts(data, prepared.text), ""), flush=True)
    if get_family(config.family).objective == "span_corruption":
        add_sentinels(prepared.tokenizer)  # of this run alone: no document holds one
    return prepared


def cached_summary(config: ResolvedConfig) -> dict[str, Any] | None:
    """Sizes of prepared data, or None where it has not been prepared yet, or is not here."""
    with contextlib.suppress(AbsentError):
        return peek_record(_rows_folder(_cache_folder(config), config.data) / ROWS_SUMMARY) or None
    return None


def find(config: ResolvedConfig) -> tuple[str, list[str]]:
    """What the text of a run holds, in one line, and doubts about it; reads it where it is not prepared yet.

    Raises:
        UsageError: If it cannot be read.
    """
    data = config.data
    if not corpus.files(data)["train"]:
        return corpus.describe(data), []
    text = read_text(config)
    return in_one_line(data, text), list(doubts(data, text))


def read_text(config: ResolvedConfig) -> TextSummary:
    """Count what the text of a run holds, by reading it unless just this text is prepared already."""
    return read_record(_cache_folder(config) / TEXT_SUMMARY, TextSummary) or read_through(config.data)


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


def word_frequency_loss(data: PreparedData, is_causal: bool) -> float:
    """Cross-entropy of the held-out tokens under the training tokens' frequencies, in nats a target token.

    This is what a model scores that knows only how frequent tokens are: the first plateau of a training.
    Frequencies are those of the tokens that training predicts, with one added to every token of the
    vocabulary, so that a token that training lacks has a chance as well. A causal model predicts all but the
    first token of a document. A masked model predicts a random part of the ordinary tokens, whose expected
    loss is that of all of them. An encoder-decoder is taken for a masked model: the sentinels that it also
    writes, a quarter of its targets and easy ones, are left out, so for it this is too high by a few tenths
    of a nat.

    Args:
        data: The packed corpus.
        is_causal: Whether the model predicts every next token; else a random part of the ordinary ones.
    """
    vocab_size = len(data.tokenizer)
    never = () if is_causal else data.tokenizer.all_special_ids
    counts = 1 + _target_counts(data.train, vocab_size, never)
    held_out = _target_counts(data.validation, vocab_size, never)
    log_probabilities = np.log(counts / counts.sum())
    return float(-(held_out * log_probabilities).sum() / max(1, held_out.sum()))


def _target_counts(split: PackedSplit, vocab_size: int, never: Sequence[int]) -> np.ndarray:
    """(V,) how often each token of a split may be a target."""
    counts = np.zeros(vocab_size, np.int64)
    rows = max(1, TOKENS_TO_COUNT // split.input_ids.shape[1])
    for start in range(0, len(split.input_ids), rows):
        part = slice(start, start + rows)
        # Position 0 is the first token of a document or of a part of one, or padding.
        tokens = split.input_ids[part][split.position_ids[part] > 0]
        counts += np.bincount(tokens, minlength=vocab_size)
    counts[list(never)] = 0
    return counts


def _cache_folder(config: ResolvedConfig) -> Path:
    parts = (tokens_fingerprint(config.data), corpus.layout(config.data))
    return Path(config.output.runs_dir) / ".cache" / "-".join(filter(None, parts))


def _rows_folder(folder: Path, data: DataConfig) -> Path:
    return folder / f"rows-{data.block_size}"


@contextlib.contextmanager
def _sole_builder(folder: Path) -> Iterator[None]:
    """Build, or wait for the process that builds; after a user's mistake everything is as before."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock_file = folder.with_suffix(".lock")
    try:
        with FileLock(lock_file):
            yield
    except UsageError:
        lock_file.unlink(missing_ok=True)
        for parent in itertools.islice(folder.parents, 2):
            with contextlib.suppress(OSError):  # not empty, so it was there before
                parent.rmdir()
        raise


@contextlib.contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """Fill a folder under another name, then give it its own; after an error nothing is left of it."""
    aside = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)  # of a killed process
    aside.mkdir()
    try:
        yield aside
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(aside, folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)  # a full disk needs the space
        raise


def _make(data: DataConfig, folder: Path, rows: Path) -> PreparedData:
    """Make what is missing or damaged, unless another process did so while this one waited."""
    text = read_record(folder / TEXT_SUMMARY, TextSummary)
    if text is None:
        with _replaced(folder) as aside:
            text = _read_through(data, aside)
            write_record(aside / TEXT_SUMMARY, text)
    prepared = _load(data, folder, rows)
    if prepared is None:
        if rows.is_dir():
            print(f"note: {rows} is damaged; made again", file=sys.stderr, flush=True)
        with _replaced(rows) as aside:
            tokenizer = _saved_tokenizer(folder)
            train = _write_split(data, "train", text.train, tokenizer, aside)
            validation = _write_split(data, "validation", text.validation, tokenizer, aside)
            sizes = RowsSummary(vocab_size=len(tokenizer), train=train, validation=validation)
            write_record(aside / ROWS_SUMMARY, sizes)
        prepared = _load(data, folder, rows)
    if prepared is None:
        raise UsageError(f"{rows} was written and cannot be read; check the disk")
    return prepared


def _read_through(data: DataConfig, folder: Path) -> TextSummary:
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
        refuse_unread(tokenizer, data.tokenizer, [*itertools.islice(documents, DOCUMENTS_TO_TRY)])
        collections.deque(documents, maxlen=0)
    else:
        print(f"training a tokenizer of {data.vocab_size:,} tokens on it", flush=True)
        tokenizer = train_tokenizer(counting.documents(data), data.vocab_size)
    tokenizer.save_pretrained(folder / TOKENIZER)
    if corpus.files(data)["train"]:
        for line in (f"found {in_one_line(data, counting.summary)}", *doubts(data, counting.summary)):
            print(line, flush=True)
    return counting.summary


def _saved_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    try:
        return load_tokenizer(folder / TOKENIZER)
    except UsageError as error:
        raise UsageError(f"{error}; remove {folder}, and the same command makes it again") from None


def _write_split(
    data: DataConfig, split: Split, num_documents: int, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> SplitSizes:
    """Tokenise and pack one split window by window; returns its sizes."""
    num_tokens = num_rows = 0
    pad_token_id = _pad_token_id(tokenizer)
    progress = ProgressBar(num_documents, " documents", name=f"tokenising {split}")
    shards = tokenise(corpus.documents(data, split), tokenizer)
    for window in until_full(shards, lambda shard: len(shard[0]), WINDOW_TOKENS):
        tokens, lengths = map(np.concatenate, zip(*window, strict=True))
        input_ids, position_ids = pack(tokens, lengths, data.block_size, pad_token_id)
        arrays = {"input_ids": input_ids, "position_ids": position_ids}
        if split == "validation":  # for the parts of the held-out documents, which are packed when needed
            arrays |= {"tokens": tokens, "lengths": lengths}
        for name, array in arrays.items():
            with _array_file(folder, split, name).open("ab") as file:
                array.tofile(file)
        num_tokens += len(tokens)
        num_rows += len(input_ids)
        progress.advance(len(lengths))
    progress.close()
    print(
        f"packed {num_documents:,} {split} documents, {num_tokens:,} tokens, into {num_rows:,} rows of "
        f"{data.block_size} ({num_tokens / (num_rows * data.block_size):.1%} filled)",
        flush=True,
    )
    return SplitSizes(num_documents=num_documents, num_tokens=num_tokens, num_rows=num_rows)


def _array_file(rows: Path, split: Split, name: str) -> Path:
    return rows / f"{split}.{name}.bin"


def _pad_token_id(tokenizer: PreTrainedTokenizerFast) -> int:
    return int(tokenizer.pad_token_id)  # type: ignore[arg-type]


def _load(data: DataConfig, folder: Path, rows: Path) -> PreparedData | None:
    """Load the tokenizer and map the rows; None where they are not there, or of another size."""
    text = read_record(folder / TEXT_SUMMARY, TextSummary)
    summary = read_record(rows / ROWS_SUMMARY, RowsSummary)
    if text is None or summary is None:
        return None
    if data.validation_part == "odd" and summary.validation.num_documents == 1:
        raise UsageError(
            "data.validation_part odd: the held-out text has one document, and none for this part; give more "
            "by --data.validation-files or a larger --data.validation-fraction"
        )
    tokenizer = _saved_tokenizer(folder)
    tokenizer.model_max_length = data.block_size
    try:
        train = _map_split(data, rows, "train", summary.train, summary.vocab_size)
        validation = _map_split(data, rows, "validation", summary.validation, summary.vocab_size)
        if data.validation_part != "all":
            validation = _pack_part(data, rows, summary, _pad_token_id(tokenizer))
    except (OSError, ValueError):  # gone, or cut
        return None
    fingerprint = f"{folder.name.partition('-')[0]}-{rows.name}"
    return PreparedData(fingerprint, text, tokenizer, train, validation)


def _map_split(data: DataConfig, rows: Path, split: Split, sizes: SplitSizes, vocab_size: int) -> PackedSplit:
    shape = sizes.num_rows, data.block_size
    ids, positions = (
        np.memmap(_array_file(rows, split, name), token_dtype(num_values), "r").reshape(shape)
        for name, num_values in (("input_ids", vocab_size), ("position_ids", data.block_size))
    )
    return PackedSplit(ids, positions, sizes.num_documents, sizes.num_tokens)


def _pack_part(data: DataConfig, rows: Path, summary: RowsSummary, pad_token_id: int) -> PackedSplit:
    """Pack every second of the held-out documents, which are few, in memory: all parts share one cache."""
    sizes = summary.validation
    tokens = np.memmap(_array_file(rows, "validation", "tokens"), token_dtype(summary.vocab_size), "r")
    lengths = np.memmap(_array_file(rows, "validation", "lengths"), np.int64, "r")
    tokens, lengths = tokens.reshape(sizes.num_tokens), lengths.reshape(sizes.num_documents)
    in_part = np.arange(len(lengths)) % 2 == ("even", "odd").index(data.validation_part)
    tokens, lengths = tokens[np.repeat(in_part, lengths)], lengths[in_part]
    input_ids, position_ids = pack(tokens, lengths, data.block_size, pad_token_id)
    return PackedSplit(input_ids, position_ids, num_documents=len(lengths), num_tokens=len(tokens))
