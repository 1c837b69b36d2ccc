"""Tokens of a corpus on disk: written once, shard by shard, and continued after an interruption.

The tokenizer's own threads share the documents of a batch. They are about as fast as processes (25.8M tokens
on two cores: 14.6 s, with ``datasets.map(num_proc=2)`` 13.0 s; November 2026), need no fork beside a GPU, and
a killed command leaves none behind. What a shard holds depends on the text alone, not on their number.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from base.files import write_atomically
from base.printing import ProgressBar
from pretrain.data.tokenizer import encode_batch

SHARD_CHARACTERS = 2**22
"""Characters of text after which a shard is full: about a million tokens, a second or two of work."""

DOCUMENTS_PER_BATCH = 1000


def tokenise(
    documents: Iterable[str],
    num_documents: int,
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
    split: str,
    has: Callable[[list[Path]], bool],
    add: Callable[[list[Path]], None],
) -> None:
    """Write the token shards of a split that are not there yet.

    Memory holds the text and the tokens of one shard.

    Args:
        documents: The text; read to the end even where all is there already.
        num_documents: How many there are, for the progress shown.
        tokenizer: The tokenizer.
        folder: Gets ``<split>-<number>.tokens.npy``, the documents of a shard one after the other, and
            ``<split>-<number>.offsets.npy``, (documents + 1,) where each begins and the last ends.
        split: Name of the split.
        has: Whether the files of a shard are there, and whole.
        add: Told of those that were written.
    """
    progress = _DocumentProgress(f"tokenising {split}", num_documents)
    for index, texts in enumerate(_full_shards(documents)):
        files = _files(folder, split, index)
        if not has(files):
            for path, array in zip(files, _encode(tokenizer, texts), strict=True):
                _save(path, array)
            add(files)
        progress.advance(len(texts))
    progress.close()


def read_shards(folder: Path, split: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (tokens, offsets) of each shard in order, memory-mapped."""
    for index in itertools.count():
        files = _files(folder, split, index)
        if not files[0].is_file():
            return
        tokens, offsets = (np.load(file, mmap_mode="r") for file in files)
        yield tokens, offsets


def every_second(
    shards: Iterable[tuple[np.ndarray, np.ndarray]], first: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield every second document of shards as shards, those without any left out.

    Args:
        shards: (tokens, offsets) of each, in order.
        first: 0 for the first document, the third and so on; 1 for the others.
    """
    before = 0
    for tokens, offsets in shards:
        lengths = np.diff(offsets)
        is_kept = np.arange(before, before + len(lengths)) % 2 == first
        before += len(lengths)
        if is_kept.any():
            kept = lengths[is_kept]
            yield tokens[np.repeat(is_kept, lengths)], np.concatenate(([0], np.cumsum(kept)))


def token_dtype(num_values: int) -> type[np.unsignedinteger[Any]]:
    """The smaller of two types that holds 0 to ``num_values - 1``."""
    return np.uint16 if num_values <= 2**16 else np.uint32


def _full_shards(documents: Iterable[str]) -> Iterator[list[str]]:
    texts: list[str] = []
    characters = 0
    for text in documents:
        texts.append(text)
        characters += len(text)
        if characters >= SHARD_CHARACTERS:
            yield texts
            texts, characters = [], 0
    if texts:
        yield texts


def _encode(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    dtype = token_dtype(len(tokenizer))
    lengths: list[int] = [0]
    parts = []
    for start in range(0, len(texts), DOCUMENTS_PER_BATCH):
        ids = encode_batch(tokenizer, texts[start : start + DOCUMENTS_PER_BATCH])
        lengths.extend(len(document) for document in ids)
        parts.append(np.fromiter(itertools.chain.from_iterable(ids), dtype))
    return np.concatenate(parts), np.cumsum(lengths)


def _files(folder: Path, split: str, index: int) -> list[Path]:
    """The tokens and the offsets of a shard."""
    return [folder / f"{split}-{index:05d}.{name}.npy" for name in ("tokens", "offsets")]


def _save(path: Path, array: np.ndarray) -> None:
    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:  # np.save would give a path without .npy another name
            np.save(file, array)

    write_atomically(path, write)


class _DocumentProgress:
    """Documents done: a bar in a terminal, about ten lines elsewhere."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total = name, total
        self.done, self.next_line = 0, total / 10
        self.bar = ProgressBar(total, " documents", name=name)

    def advance(self, count: int) -> None:
        self.done += count
        self.bar.advance(count)
        if not self.bar.is_drawn and self.done >= self.next_line:
            self.next_line = self.done + self.total / 10
            self.bar.say(f"{self.name}: {self.done:,} of {self.total:,} documents")

    def close(self) -> None:
        self.bar.close()
