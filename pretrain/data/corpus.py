"""The three sources of text behind one interface: documents of a split, and a fingerprint of them."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any, Literal, get_args

from base.errors import UsageError, naming
from base.text import text_files
from pretrain.config import DataConfig
from pretrain.data.embedded import stories

Split = Literal["train", "validation"]

TINYSTORIES = "roneneldan/TinyStories"
TINYSTORIES_REVISION = "f54c09fd23315a6f9c86f9dc80f725de7d8f9c64"
"""Pinned, so that a change on the hub cannot change a run, and so that its identity is known offline."""

_stories = lru_cache(maxsize=1)(stories)
"""Both splits are parts of them, and each is read to train a tokenizer and again to be packed."""

# What the grammar's imports are called, and were called when runs that may go on today were begun.
_FIRST_NAMES = {b"pretrain.data.embedded": b"pretrain.embedded", b"base.errors": b"ffn_variants.errors"}


def documents(data: DataConfig, split: Split) -> Iterator[str]:
    """Yield the documents of one split, always in the same order.

    Where the source has no held-out part, every n-th document is held out, n = 1 / ``validation_fraction``.

    Raises:
        UsageError: If the text is missing, unreadable, or there are no documents.
    """
    every = held_out_share(data)
    stream = _source(data, "train" if every else split)
    if split == "train" or every:
        stream = itertools.islice(stream, data.max_documents)
    if every:
        held_out = split == "validation"
        # The first document is held out, so that even the smallest corpus has one.
        stream = (text for index, text in enumerate(stream) if (index % every == 0) == held_out)
    if split == "validation":
        stream = itertools.islice(stream, data.max_validation_documents)
    return _not_empty(stream, data, split)


def held_out(data: DataConfig) -> Iterator[str]:
    """The held-out documents that a run is judged on: all, or those of its ``validation_part``.

    Raises:
        UsageError: If the text is missing, unreadable, or there are no documents.
    """
    start, step = {"all": (0, 1), "even": (0, 2), "odd": (1, 2)}[data.validation_part]
    return itertools.islice(documents(data, "validation"), start, None, step)


def fingerprint(data: DataConfig) -> str:
    """A hash of the corpus's content: the files' bytes, the hub's revision, or the grammar's source code."""
    digest = hashlib.sha256()
    for part in _content(data):
        digest.update(part)
    return digest.hexdigest()[:16]


def check_present(data: DataConfig) -> None:
    """Refuse files and folders that are not there, or not what they are named for, without reading the text.

    Raises:
        UsageError: Naming the file.
    """
    for path in itertools.chain(*files(data).values()):
        text_files.check_file(path)
        text_files.check_split(path, data.txt_split)


def files(data: DataConfig) -> dict[Split, list[Path]]:
    """The local files of each split in the order in which they are read; none of a source without any.

    Raises:
        UsageError: If a folder has none that can be read, or of several kinds.
    """
    if data.source == "files":
        return {
            "train": text_files.files_of(map(Path, data.train_files)),
            "validation": text_files.files_of(map(Path, data.validation_files)),
        }
    if data.tinystories_dir is None:
        return {"train": [], "validation": []}
    folder = Path(data.tinystories_dir)
    if not folder.is_dir():
        problem = "no such folder; data.tinystories_dir must hold train* and validation* files"
        raise text_files.absent(folder, f"{folder}: {problem}")
    train = _matching(folder, "train")
    if not train:
        raise UsageError(f"{folder}: has no train* file of a known format ({', '.join(text_files.FORMATS)})")
    return {"train": train, "validation": _matching(folder, "validation")}


def layout(data: DataConfig) -> str:
    """How many files are trained on and held out, as in ``2+0``, where files might be shared otherwise.

    One file, and held-out text in one of its own, have none: those are the usual ways to share as many.
    """
    of = files(data)
    train, validation = len(of["train"]), len(of["validation"])
    return "" if validation == 1 or train + validation < 2 else f"{train}+{validation}"


def held_out_share(data: DataConfig) -> int | None:
    """Every how many documents one is held out; None where the source has a held-out part."""
    if _is_hub(data) or files(data)["validation"]:
        return None
    return round(1 / data.validation_fraction)


def describe(data: DataConfig) -> str:
    """The source as a reader would name it."""
    if data.source == "embedded":
        return f"embedded grammar, {data.num_stories:,} stories"
    if data.source == "tinystories":
        return data.tinystories_dir or f"{TINYSTORIES} (Hugging Face hub)"
    return ", ".join(data.train_files)


def is_whole_hub(data: DataConfig) -> bool:
    """Whether this is all of the hub's TinyStories."""
    return _is_hub(data) and data.max_documents is None


def _is_hub(data: DataConfig) -> bool:
    return data.source == "tinystories" and data.tinystories_dir is None


def _source(data: DataConfig, split: Split) -> Iterator[str]:
    if data.source == "embedded":
        return iter(_stories(data.num_stories, data.corpus_seed))
    if _is_hub(data):
        return (text.strip() for batch in _hub(split).iter(1000) for text in batch["text"] if text.strip())
    return text_files.read_documents(files(data)[split], data.text_field, data.txt_split)


def _matching(folder: Path, split: Split) -> list[Path]:
    """A split's files in a folder: `train.jsonl`, `train-00000-of-00004.parquet`, `TinyStories-valid.txt`."""
    files = [path for path in sorted(folder.rglob("*")) if text_files.format_of(path)]
    exact = [path for path in files if path.name.partition(".")[0].partition("-")[0] == split]
    return exact or [
        path for path in files if {"train": "train", "validation": "valid"}[split] in path.name.lower()
    ]


def _hub(split: Split) -> Any:
    """The hub's dataset; from the local Hugging Face cache where there is no network."""
    from base.hub_datasets import load_split  # slow to import, and only this source needs it

    instead = "set --data.tinystories-dir to a folder with its files, or use --data.source embedded"
    return load_split(TINYSTORIES, split, instead, revision=TINYSTORIES_REVISION)


def _content(data: DataConfig) -> Iterator[bytes]:
    if data.source == "embedded":
        for path in sorted((Path(__file__).parent / "embedded").glob("*.py")):
            yield reduce(lambda code, name: code.replace(*name), _FIRST_NAMES.items(), path.read_bytes())
        yield f"{data.num_stories} {data.corpus_seed}".encode()
    elif _is_hub(data):
        yield f"{TINYSTORIES} {TINYSTORIES_REVISION}".encode()
    else:
        for path in itertools.chain(*files(data).values()):
            text_files.check_file(path)
            with naming(path), path.open("rb") as file:
                yield hashlib.file_digest(file, "sha256").digest()
                if text_files.begins_as_jsonl(path):
                    yield b"plain text"


def _not_empty(stream: Iterator[str], data: DataConfig, split: Split) -> Iterator[str]:
    first = next(stream, None)
    if first is None:
        hint = f"has no {split} document with text in it; add documents, of which the first is held out,"
        if held_out_share(data) and next(_source(data, "train"), None):
            hint = "is one document, held out, and none is left to train on; cut it into several,"
        hint += " or give held-out text in data.validation_files"
        if any(text_files.is_plain_text(path) for path in files(data)["train"]):
            hint += f"; a .txt is split by --data.txt-split ({', '.join(get_args(text_files.TextSplit))})"
        raise UsageError(f"the corpus ({describe(data)}) {hint}")
    yield first
    yield from stream
