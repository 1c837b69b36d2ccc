"""Data sets as the hub has them: a folder a configuration, Parquet a split, and a card that names both."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

Rows = Sequence[dict]


def write_data_set(folder: Path, configurations: Mapping[str, Mapping[str, Rows]]) -> Path:
    """Write a repository; the configuration ``default`` lies in ``data/``, as nameless ones do there.

    Args:
        folder: Of the repository.
        configurations: Rows by configuration and split.
    """
    card = []
    for name, splits in configurations.items():
        place = "data" if name == "default" else name
        for split, rows in splits.items():
            path = folder / place / f"{split}-00000-of-00001.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(list(rows)), path)
        files = [{"split": split, "path": f"{place}/{split}-*"} for split in splits]
        card.append({"config_name": name, "data_files": files})
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': card})}---\n# A data set\n")
    return folder


def write_converted(folder: Path, configurations: Mapping[str, Mapping[str, Rows]]) -> Path:
    """Write a repository as ``refs/convert/parquet`` has it: ``<name>/<split>/0000.parquet`` and no card."""
    for name, splits in configurations.items():
        for split, rows in splits.items():
            path = folder / name / split / "0000.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return folder


def read_jsonl(path: Path, limit: int | None = None) -> list[dict]:
    """Read rows of the real subsets beside the checkout."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line, _ in zip(file, range(limit or 10**9), strict=False)]


def write_tinystories(folder: Path, train: Sequence[str], validation: Sequence[str]) -> Path:
    """Write ``roneneldan/TinyStories``: one configuration, beside text files that are not to be read."""
    rows = {
        "train": [{"text": text} for text in train],
        "validation": [{"text": text} for text in validation],
    }
    write_data_set(folder, {"default": rows})
    (folder / "TinyStories-train.txt").write_text("not this one")
    return folder


def write_blimp(folder: Path, data: Path, limit: int) -> Path:
    """Write ``nyu-mll/blimp``: a configuration a paradigm, each with the split train alone."""
    files = sorted((data / "blimp/full").glob("*.jsonl.gz"))
    return write_data_set(
        folder, {path.name.split(".")[0]: {"train": read_jsonl(path, limit)} for path in files}
    )


def write_glue(folder: Path, data: Path, names: Mapping[str, Sequence[str]], limit: int) -> Path:
    """Write ``nyu-mll/glue`` or ``aps/super_glue``.

    Args:
        folder: Of the repository.
        data: The real subsets.
        names: The splits of each configuration.
        limit: Rows of a split.
    """
    return write_data_set(
        folder,
        {
            name: {split: read_jsonl(data / f"glue/{name}.{split}.jsonl.gz", limit) for split in splits}
            for name, splits in names.items()
        },
    )
