"""Tokens of a corpus on disk: written once, in parallel, and continued after an interruption.

The text is first copied into one Arrow file whose record batches are the shards, so every worker can read any
shard, and memory holds one shard of text however long the corpus is. What a shard holds depends on the text
alone, so the result is the same for every number of workers.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from ffn_variants.files import write_atomically
from pretrain.tokenizer import encode_batch, load_tokenizer

SHARD_CHARACTERS = 2**22
"""Characters of text after which a shard is full: about a million tokens, a second or two of work."""

DOCUMENTS_PER_BATCH = 500

_SCHEMA = pa.schema([("text", pa.large_string())])


def write_text_shards(documents: Iterable[str], path: Path, name: str) -> None:
    """Copy documents into an Arrow file of shards; an error leaves no file."""

    def write(temporary: Path) -> None:
        shown = tqdm(documents, f"reading {name}", unit=" documents", disable=not sys.stderr.isatty())
        with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
            for texts in _full_shards(shown):
                writer.write_batch(pa.record_batch([pa.array(texts, pa.large_string())], schema=_SCHEMA))

    write_atomically(path, write)


def read_text(path: Path) -> Iterator[str]:
    """Yield the documents of a file of text shards."""
    for index in range(_num_shards(path)):
        yield from _texts(path, index)


def tokenise(text: Path, folder: Path, split: str, num_workers: int) -> None:
    """Write the token shards of a split that are not there yet.

    Args:
        text: File of text shards.
        folder: Holds ``tokenizer/``; gets ``<split>-<number>.tokens.npy``, all documents one after the other,
            and ``<split>-<number>.offsets.npy``, where each begins and the last ends.
        split: Name of the split.
        num_workers: Processes.
    """
    import datasets  # slow to import, and needed only where something is to be prepared

    num_shards = _num_shards(text)
    missing = [index for index in range(num_shards) if not _token_file(folder, split, index).is_file()]
    if len(missing) < num_shards:
        print(f"{num_shards - len(missing)} of {num_shards} {split} shards were tokenised before", flush=True)
    if not missing:
        return
    in_terminal = sys.stderr.isatty()
    (datasets.enable_progress_bars if in_terminal else datasets.disable_progress_bars)()
    num_workers = min(num_workers, len(missing))
    datasets.Dataset.from_dict({"shard": missing}).map(
        _tokenise_shard,
        fn_kwargs={
            "text": text,
            "folder": folder,
            "split": split,
            "parent": os.getpid(),
            # About ten lines in a log file; the bar does without.
            "said": set() if in_terminal else set(missing[:: -(-len(missing) // 10)]),
            "num_shards": num_shards,
        },
        num_proc=num_workers if num_workers > 1 else None,
        new_fingerprint="shards",  # nothing is cached by it, and computing one pickles everything
        load_from_cache_file=False,
        desc=f"tokenising {split} in shards",
    )


def read_token_shards(folder: Path, split: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (tokens, offsets) of each shard in order, memory-mapped."""
    for index in itertools.count():
        file = _token_file(folder, split, index)
        if not file.is_file():
            return
        yield np.load(file, mmap_mode="r"), np.load(_offsets_file(folder, split, index), mmap_mode="r")


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


def _num_shards(path: Path) -> int:
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).num_record_batches


def _texts(path: Path, index: int) -> list[str]:
    # Not memory-mapped: the pages of a whole corpus would count as this process's memory.
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).get_batch(index).column(0).to_pylist()


def _token_file(folder: Path, split: str, index: int) -> Path:
    return folder / f"{split}-{index:05d}.tokens.npy"


def _offsets_file(folder: Path, split: str, index: int) -> Path:
    return folder / f"{split}-{index:05d}.offsets.npy"


def _tokenise_shard(
    row: dict[str, int], text: Path, folder: Path, split: str, parent: int, said: set[int], num_shards: int
) -> None:
    if os.getpid() != parent:
        _end_with_parent()
    index = row["shard"]
    tokenizer = _tokenizer(folder / "tokenizer")
    dtype = token_dtype(len(tokenizer))
    lengths, parts = [], []
    texts = _texts(text, index)
    for start in range(0, len(texts), DOCUMENTS_PER_BATCH):
        ids = encode_batch(tokenizer, texts[start : start + DOCUMENTS_PER_BATCH])
        lengths.extend(len(document) for document in ids)
        parts.append(np.fromiter(itertools.chain.from_iterable(ids), dtype))
    # The tokens last: their file says that the shard is done.
    _save(_offsets_file(folder, split, index), np.cumsum([0, *lengths]))
    _save(_token_file(folder, split, index), np.concatenate(parts))
    if index in said:
        done = sum(1 for _ in folder.glob(f"{split}-*.tokens.npy"))
        print(f"tokenised {done} of {num_shards} {split} shards", flush=True)


def token_dtype(vocab_size: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds every token."""
    return np.uint16 if vocab_size <= 2**16 else np.uint32


@functools.lru_cache(maxsize=1)
def _tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    return load_tokenizer(folder)


def _save(path: Path, array: np.ndarray) -> None:
    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.save(file, array)

    write_atomically(path, write)


@functools.cache
def _end_with_parent() -> None:
    """Let the parent answer Ctrl-C, and end when it is killed, which leaves it no time to end its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
