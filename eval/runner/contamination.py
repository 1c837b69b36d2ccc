"""How much of what a model is evaluated on stood in the text that it was trained on.

A text counts as found when its words stand in one training document one after the other; case and
punctuation are ignored. Texts of fewer than four words are left out: they say little when they are found.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock
from tqdm import tqdm

from base.files import ABANDONED_S, remove_leftovers
from base.records import read_record, write_record
from eval.results.contamination import Contamination
from pretrain.config import DataConfig
from pretrain.data import corpus

MIN_WORDS = 4
_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")


def contamination(
    data: DataConfig, texts: Mapping[str, Sequence[str]], cache_dir: Path
) -> dict[str, Contamination]:
    """Look for evaluation texts in a training corpus, once for each corpus and set of texts.

    Args:
        data: The training corpus.
        texts: The texts of each benchmark.
        cache_dir: Where the answer is kept for the next run with this corpus.

    Returns:
        For each benchmark how many of its texts there are and were found, repeated texts counted once.

    Raises:
        UsageError: If the corpus cannot be read.
    """
    digest = hashlib.sha256(corpus.fingerprint(data).encode())
    digest.update(_how_read(data).encode())
    digest.update(json.dumps({name: list(of_suite) for name, of_suite in sorted(texts.items())}).encode())
    file = cache_dir / f"contamination-{digest.hexdigest()[:16]}.json"
    if (known := read_record(file, dict[str, Contamination])) is not None:
        return known
    cache_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_suffix(".lock")):  # several runs of a study ask at the same time
        remove_leftovers(cache_dir, ABANDONED_S)
        if (known := read_record(file, dict[str, Contamination])) is None:
            known = find_texts(corpus.documents(data, "train"), texts)
            write_record(file, {name: asdict(counts) for name, counts in known.items()})
    return known


def _how_read(data: DataConfig) -> str:
    """What else decides the training documents, where it is not as ever."""
    names = ("text_field", "txt_split", "max_documents", "validation_fraction")
    usual = DataConfig()
    chosen = [
        f"{name} {getattr(data, name)}" for name in names if getattr(data, name) != getattr(usual, name)
    ]
    return " ".join([*chosen, corpus.layout(data)]).strip()


def find_texts(
    documents: Iterable[str], texts: Mapping[str, Sequence[str]], progress: bool = True
) -> dict[str, Contamination]:
    """Count which texts stand in any of the documents; takes about a microsecond a word of them."""
    wanted = {
        name: {words for text in of_suite if (words := _words(text))} for name, of_suite in texts.items()
    }
    left: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for text in set().union(*wanted.values()):
        left[tuple(text.split(" ", MIN_WORDS)[:MIN_WORDS])].add(text)
    found: set[str] = set()
    bar = tqdm(documents, desc="looking for evaluation texts in the training text", unit=" documents",
               disable=None if progress else True, leave=False)  # fmt: skip
    for document in bar:
        words = _WORD.findall(document.lower())
        begins = left.keys() & set(zip(*(words[start:] for start in range(MIN_WORDS)), strict=False))
        if begins:
            whole = f" {' '.join(words)} "
            for begin in begins:
                found |= {text for text in left[begin] if f" {text} " in whole}
    return {name: Contamination(len(of_suite), len(of_suite & found)) for name, of_suite in wanted.items()}


def _words(text: str) -> str:
    """Return a text as its words, or nothing for a short one."""
    words = _WORD.findall(text.lower())
    return " ".join(words) if len(words) >= MIN_WORDS else ""
