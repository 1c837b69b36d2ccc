"""What files of text hold, in one line, and what looks wrong with them: printed before any training."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from base.errors import UsageError
from base.printing import first_few
from base.text import text_files
from base.text.text_files import END_OF_DOCUMENT, MOST_CHARACTERS, format_of, is_plain_text, names_held_out
from pretrain.config import DataConfig
from pretrain.data import corpus

FEW_HELD_OUT = 10
MANY_REPEATED = 0.01
SHORT_DOCUMENT = 20
"""Characters: shorter ones are a label or a number rather than a text."""

_SPLITS = {
    "endoftext": f"split at {END_OF_DOCUMENT}",
    "lines": "one a line",
    "blank-lines": "split at blank lines",
    "file": "one a file",
}


@dataclass(frozen=True, kw_only=True)
class TextSummary:
    """What two splits hold.

    Attributes:
        train: Documents that are trained on.
        validation: Documents that are held out.
        characters: Of all that are trained on.
        longest: Characters of the longest of them.
        shared: Held-out documents that are trained on too, character by character.
        repeated: Documents that are trained on and came before.
    """

    train: int
    validation: int
    characters: int = 0
    longest: int = 0
    shared: int = 0
    repeated: int = 0


class Counting:
    """Counts the documents of a corpus while those to train on pass through it.

    Attributes:
        summary: What there is, once all have passed.
    """

    summary: TextSummary

    def documents(self, data: DataConfig) -> Iterator[str]:
        """Yield the documents to train on; memory holds a number for each document.

        Raises:
            UsageError: At the end, where files of held-out text have no other document.
        """
        trained = corpus.documents(data, "train")
        first = next(trained)  # a mistake in what is trained on is reported first
        held_out = Counter(map(hash, corpus.documents(data, "validation")))
        validation = held_out.total()
        train = characters = longest = shared = 0
        seen = set[int]()
        for text in itertools.chain([first], trained):
            train, characters, longest = train + 1, characters + len(text), max(longest, len(text))
            seen.add(hash(text))
            shared += held_out.pop(hash(text), 0)
            yield text
        if shared == validation and corpus.files(data)["validation"]:
            raise UsageError(
                f"all {validation:,} held-out documents are also trained on; give data.validation_files with "
                "others, or leave it out, and a part of data.train_files is held out"
            )
        self.summary = TextSummary(
            train=train,
            validation=validation,
            characters=characters,
            longest=longest,
            shared=shared,
            repeated=train - len(seen),
        )


def read_through(data: DataConfig) -> TextSummary:
    """Read all documents once.

    Raises:
        UsageError: As ``corpus.documents``.
    """
    counting = Counting()
    deque(counting.documents(data), maxlen=0)
    return counting.summary


def in_one_line(data: DataConfig, text: TextSummary) -> str:
    """Say which files there are, their documents and what ends one, their size, and what is held out."""
    files = corpus.files(data)
    if not files["train"]:
        return corpus.describe(data)
    size = f", {text.characters:,} characters" if text.characters else ""
    every = corpus.held_out_share(data)
    if every:
        held_out = f"{text.validation:,} more, 1 document in {every}"
    else:
        held_out = f"{text.validation:,} of {first_few(data.validation_files, 3)}"
    if text.validation == data.max_validation_documents:
        held_out += "; data.max_validation_documents keeps no more"
    count = f"{len(files['train']):,} file{'s' * (len(files['train']) > 1)}"
    return (
        f"{first_few(data.train_files, 3) or corpus.describe(data)}: {count} ({_kinds(files['train'])}), "
        f"{text.train:,} documents{_how_split(data, text)}{size}; held out: {held_out}"
    )


def doubts(data: DataConfig, text: TextSummary) -> Iterator[str]:
    """What looks wrong with files of text, a line each with what to do; nothing of a text without files."""
    files = corpus.files(data)["train"]
    if not files:
        return
    cure = _cure(data, files)
    if text.shared:
        yield f"note: {text_files.describe_overlap(text.shared, text.validation)}"
    if text.repeated >= text.train * MANY_REPEATED:
        different = f"{text.train - text.repeated:,} of {text.train:,} documents are different"
        yield f"note: {different}; sort -u FILE > NEW has each once, if one is a line"
    yield from doubts_of_names(data)
    if text.longest > MOST_CHARACTERS and data.txt_split != "file":
        yield f"note: the longest document has {text.longest:,} characters; if it is many, {cure}"
    if text.characters and text.characters < SHORT_DOCUMENT * text.train:
        mean = text.characters / text.train
        yield f"note: a document has {mean:.0f} characters on average; if that is no text, {cure}"
    if corpus.held_out_share(data) and text.validation < FEW_HELD_OUT:
        flag, now = "validation-fraction", f"{data.validation_fraction:g}"
        if text.validation == data.max_validation_documents:
            flag, now = "max-validation-documents", f"{text.validation}"
        more = f"--data.validation-files or a larger --data.{flag} (now {now})"
        yield f"note: only {text.validation} held out; give more by {more}"


def doubts_of_names(data: DataConfig) -> Iterator[str]:
    """What the names of files alone make doubtful."""
    if others := text_files.others_in(map(Path, data.train_files)):
        yield f"note: not read, as of other formats: {others}; what is text must end in .txt"
    files = corpus.files(data)["train"]
    named = [file for file in files if names_held_out(file)]
    if 0 < len(named) < len(files):
        yield f"note: {named[0]} is trained on; if it is held out, give it by --data.validation-files alone"


def _cure(data: DataConfig, files: Iterable[Path]) -> str:
    """The flag that says what a document is."""
    if any(map(is_plain_text, files)):
        return f"set --data.txt-split (now {data.txt_split})"
    return f"set --data.text-field (now {data.text_field})"


def _how_split(data: DataConfig, text: TextSummary) -> str:
    """What ended a document of a .txt."""
    files, every = corpus.files(data)["train"], corpus.held_out_share(data)
    if not any(map(is_plain_text, files)):
        return ""
    without = data.txt_split == "endoftext" and text.train + (text.validation if every else 0) <= len(files)
    how = f"one a file, with no {END_OF_DOCUMENT} in it" if without else _SPLITS[data.txt_split]
    return f" ({how}; otherwise: --data.txt-split)"


def _kinds(files: list[Path]) -> str:
    """Formats and size on disk."""
    size = tqdm.format_sizeof(sum(path.stat().st_size for path in files), "B")
    kinds = dict.fromkeys(str(format_of(path)) for path in files)
    return f"{', '.join(kinds)}; {size}"
