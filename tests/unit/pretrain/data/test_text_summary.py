"""What is said of texts before anything is trained on them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pretrain.config import DataConfig
from pretrain.data.text_summary import TextSummary, doubts, in_one_line, read_through

TEXTS = [f"This is document number {number:03}, and has two\nlines." for number in range(40)]


def data_of(*paths: Path, **options) -> DataConfig:
    return DataConfig(source="files", train_files=tuple(map(str, paths)), validation_fraction=0.1, **options)


def write_lines(path: Path, texts: list[str] = TEXTS) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def test_the_line_has_files_documents_characters_and_what_is_held_out(tmp_path):
    data = data_of(write_lines(tmp_path / "a.jsonl"))
    summary, size = read_through(data), (tmp_path / "a.jsonl").stat().st_size
    held_out = TEXTS[::10]
    characters = sum(map(len, TEXTS)) - sum(map(len, held_out))
    assert summary == TextSummary(train=36, validation=4, characters=characters, longest=len(TEXTS[0]))
    assert in_one_line(data, summary) == (
        f"{tmp_path}/a.jsonl: 1 file (.jsonl; {size / 1000:.2f}kB), 36 documents, {characters:,} "
        "characters; held out: 4 more, 1 document in 10"
    )


def test_files_of_their_own_are_named_as_such(tmp_path):
    train, held_out = write_lines(tmp_path / "a.jsonl"), write_lines(tmp_path / "b.jsonl", TEXTS[:12])
    data = data_of(train, validation_files=(str(held_out),))
    assert in_one_line(data, read_through(data)).endswith("held out: 12 in 1 file of their own")
    (doubt,) = doubts(data, read_through(data))
    assert doubt == "note: 12 of 12 held-out documents are also trained on"


@pytest.mark.parametrize(
    ("held_out", "shared"),
    [(["new text"] * 12, 0), (["new text", *TEXTS[3:6]] * 4, 12), ([f" {TEXTS[0]}\n", TEXTS[0].upper()], 1)],
)
def test_documents_on_both_sides_are_counted_once_for_each_that_is_held_out(tmp_path, held_out, shared):
    train = write_lines(tmp_path / "a.jsonl", TEXTS * 2)
    data = data_of(train, validation_files=(str(write_lines(tmp_path / "b.jsonl", held_out)),))
    doubt = f"note: {shared} of {len(held_out)} held-out documents are also trained on"
    assert list(doubts(data, read_through(data))) == [doubt] * bool(shared)
    # Held out are 0, 10, 20, 30, "other" and again 9, of which 0, 9 and 10 are trained on.
    data = data_of(write_lines(tmp_path / "c.jsonl", [*TEXTS, "other", *TEXTS[:11]]))
    assert (read_through(data).shared, read_through(data).validation) == (3, 6)


@pytest.mark.parametrize(
    ("txt_split", "documents", "words"),
    [
        ("lines", 80, "one a line"),
        ("blank-lines", 40, "split at blank lines"),
        ("file", 1, "one a file"),
        ("endoftext", 1, "one a file, with no <|endoftext|> in it"),
    ],
)
def test_what_ends_a_document_of_a_txt_is_said(tmp_path, txt_split, documents, words):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("\n\n".join(TEXTS).encode()))
    data = data_of(path, txt_split=txt_split, validation_files=(str(path),))
    summary = read_through(data)
    assert summary.train == documents
    assert f" {documents} documents ({words}), " in in_one_line(data, summary)


def test_a_folder_of_markers_and_of_many_files(tmp_path):
    for number, text in enumerate(TEXTS):
        (tmp_path / f"{number:02}.txt").write_text(text)
    data = data_of(tmp_path)
    assert "40 files (.txt; " in in_one_line(data, read_through(data))
    assert "36 documents (one a file, with no" in in_one_line(data, read_through(data))
    (tmp_path / "39.txt").write_text("one<|endoftext|>two<|endoftext|>three")
    assert "37 documents (split at <|endoftext|>)" in in_one_line(data, read_through(data))


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (TEXTS, "only 4 held out; give more by --data.validation-files"),
        (["7"] * 200, "a document has 1 characters on average; if that is no text, set --data.text-field"),
        (["word " * 30_000] * 2, "the longest document has 149,999 characters; if it is many, set"),
    ],
)
def test_what_looks_wrong_is_told_with_a_cure(tmp_path, texts, words):
    data = data_of(write_lines(tmp_path / "a.jsonl", texts))
    assert any(words in doubt for doubt in doubts(data, read_through(data)))
