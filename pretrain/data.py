"""The corpus as the training loop reads it: packed token rows, built once and memory-mapped by every run.

Lies under ``<runs_dir>/.cache/<fingerprint>/``; the fingerprint covers the corpus's content and every setting
of tokenizer and packing, so all seeds and variants of a study share one copy and a changed corpus gets a new
one.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from transformers import PreTrainedTokenizerFast

from pretrain import corpus
from pretrain.config import DataConfig, RunConfig
from pretrain.packing import pack
from pretrain.tokenizer import encode_batch, load_tokenizer, train_tokenizer

CACHE_VERSION = 1
"""Raised whenever the same settings would give other rows."""

DOCUMENTS_PER_BATCH = 1000


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
    """Tokenizer and packed splits of one corpus."""

    fingerprint: str
    tokenizer: PreTrainedTokenizerFast
    train: PackedSplit
    validation: PackedSplit


def prepare_data(config: RunConfig) -> PreparedData:
    """Tokenizer and packed rows of a run, from the cache or built into it.

    Several processes may call this at once: one builds, the others wait for it.

    Raises:
        UsageError: If the corpus or the tokenizer cannot be used; the cache is then as before.
    """
    fingerprint = data_fingerprint(config.data)
    folder = _cache_folder(config, fingerprint)
    if not folder.is_dir():
        _build_once(config.data, folder)
    return _load(folder, fingerprint)


def cached_summary(config: RunConfig) -> dict[str, Any] | None:
    """Sizes of prepared data, or None where it has not been prepared yet."""
    folder = _cache_folder(config, data_fingerprint(config.data))
    return json.loads((folder / "summary.json").read_text()) if folder.is_dir() else None


def data_fingerprint(data: DataConfig) -> str:
    """Identity of the packed rows: the corpus's content, the tokenizer, the packing."""
    settings = data.model_dump(
        include={
            "text_field",
            "max_documents",
            "max_validation_documents",
            "validation_fraction",
            "vocab_size",
            "block_size",
        }
    )
    settings |= {"version": CACHE_VERSION, "source": data.source, "corpus": corpus.fingerprint(data)}
    if data.tokenizer:
        tokenizer = load_tokenizer(data.tokenizer).backend_tokenizer.to_str()
        settings["tokenizer"] = hashlib.sha256(tokenizer.encode()).hexdigest()
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def _cache_folder(config: RunConfig, fingerprint: str) -> Path:
    return Path(config.output.runs_dir) / ".cache" / fingerprint


def _build_once(data: DataConfig, folder: Path) -> None:
    """Build, or wait for the process that builds; after an error everything is as before."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = folder.with_suffix(".lock")
    try:
        with FileLock(lock):
            if not folder.is_dir():
                _build(data, folder)
    except BaseException:
        lock.unlink(missing_ok=True)
        for parent in (folder.parent, folder.parent.parent):
            with contextlib.suppress(OSError):  # not empty, so it was there before
                parent.rmdir()
        raise


def _build(data: DataConfig, folder: Path) -> None:
    """Write tokenizer and rows aside, then rename."""
    aside = folder.with_name(f"{folder.name}.tmp-{os.getpid()}")
    aside.mkdir()
    try:
        if data.tokenizer:
            tokenizer = load_tokenizer(data.tokenizer)
        else:
            print(
                f"training a tokenizer of {data.vocab_size:,} tokens on {corpus.describe(data)}", flush=True
            )
            tokenizer = train_tokenizer(corpus.documents(data, "train"), data.vocab_size)
        tokenizer.model_max_length = data.block_size
        tokenizer.save_pretrained(aside / "tokenizer")
        summary: dict[str, Any] = {"vocab_size": len(tokenizer)}
        for split in ("train", "validation"):
            summary[split] = _build_split(data, split, tokenizer, aside)
        (aside / "summary.json").write_text(json.dumps(summary, indent=2))
        os.replace(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _build_split(
    data: DataConfig, split: corpus.Split, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> dict[str, int]:
    dtype = np.uint16 if len(tokenizer) <= 2**16 else np.uint32
    chunks: list[np.ndarray] = []
    lengths: list[int] = []
    for texts in _batched(corpus.documents(data, split), DOCUMENTS_PER_BATCH):
        ids = encode_batch(tokenizer, texts)
        lengths.extend(len(document) for document in ids)
        chunks.append(np.fromiter(itertools.chain.from_iterable(ids), dtype))
    tokens = np.concatenate(chunks)
    pad = int(tokenizer.pad_token_id)  # type: ignore[arg-type]
    input_ids, position_ids = pack(tokens, np.array(lengths), data.block_size, pad)
    np.save(folder / f"{split}_input_ids.npy", input_ids)
    np.save(folder / f"{split}_position_ids.npy", position_ids)
    print(
        f"packed {len(lengths):,} {split} documents, {len(tokens):,} tokens, into {len(input_ids):,} rows of "
        f"{data.block_size} ({len(tokens) / input_ids.size:.1%} filled)",
        flush=True,
    )
    return {"num_documents": len(lengths), "num_tokens": len(tokens), "num_rows": len(input_ids)}


def _batched(documents: Iterator[str], size: int) -> Iterator[list[str]]:
    while batch := list(itertools.islice(documents, size)):
        yield batch


def _load(folder: Path, fingerprint: str) -> PreparedData:
    summary = json.loads((folder / "summary.json").read_text())
    splits = {
        split: PackedSplit(
            input_ids=np.load(folder / f"{split}_input_ids.npy", mmap_mode="r"),
            position_ids=np.load(folder / f"{split}_position_ids.npy", mmap_mode="r"),
            num_documents=summary[split]["num_documents"],
            num_tokens=summary[split]["num_tokens"],
        )
        for split in ("train", "validation")
    }
    return PreparedData(fingerprint, load_tokenizer(folder / "tokenizer"), **splits)
