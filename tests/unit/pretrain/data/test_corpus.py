"""Reading text from every source and format, and what is said of it."""

import gzip
import hashlib
import json
from pathlib import Path

import pandas as pd
import pytest

from base.errors import UsageError
from base.text.text_files import read_documents
from pretrain.config import DataConfig
from pretrain.data.corpus import check_present, describe, documents, fingerprint, held_out, is_whole_hub
from pretrain.data.text_summary import TextSummary, doubts, in_one_line, read_through
from tests.cases import listed

# Reading text from every source and format, and what is said of files that cannot be read.
STORIES = ["Once upon a time.\n\nThe end.", "A dog ran.", "Été, naïve café.", "Fourth."]


def data_of(*paths: Path, **options) -> DataConfig:
    fraction = {"validation_fraction": 0.25}
    return DataConfig(source="files", train_files=tuple(map(str, paths)), **(fraction | options))


def write_corpus(folder: Path, name: str, stories: list[str] = STORIES, field: str = "text") -> Path:
    path = folder / name
    rows = "".join(json.dumps({field: story}) + "\n" for story in stories)
    if name.endswith(".jsonl"):
        path.write_text(rows)
    elif name.endswith(".jsonl.gz"):
        path.write_bytes(gzip.compress(rows.encode()))
    elif name.endswith(".parquet"):
        pd.DataFrame({field: stories}).to_parquet(path)
    else:
        path.write_text("\n<|endoftext|>\n".join(stories) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz", "c.parquet", "c.txt", "C.TXT"])
def test_every_format_gives_the_same_documents(tmp_path, name):
    data = data_of(write_corpus(tmp_path, name))
    assert list(documents(data, "validation")) == STORIES[:1]
    assert list(documents(data, "train")) == STORIES[1:]


PARTS = {
    "lines": ["One.", "Two of it.", "Three."],
    "blank-lines": ["One.\nTwo of it.", "Three."],
    "file": ["One.\nTwo of it.\n\n \n\nThree."],
    "endoftext": ["One.\nTwo of it.\n\n \n\nThree."],
}


@pytest.mark.parametrize("txt_split", PARTS)
def test_what_ends_a_document_of_a_text(tmp_path, txt_split):
    """Packed or not, and as Windows writes it."""
    text = b"One.\nTwo of it.\n\n \n\nThree.\n"
    windows = b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n")
    for name, content in (("a.txt", text), ("a.txt.gz", gzip.compress(text)), ("b.txt", windows)):
        (tmp_path / name).write_bytes(content)
        assert list(read_documents([tmp_path / name], "text", txt_split)) == PARTS[txt_split]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Story.\n\n" * 101, "101 lines, .* needs --data.txt-split lines"),
        ("\n\n".join(["word " * 3000] * 7), r"7 lines, .* blank-lines \(7 of them\)"),
    ],
)
def test_a_text_of_many_lines_that_would_be_one_document_is_refused(tmp_path, text, told):
    path = tmp_path / "a.txt"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"1 document in {told}"):
        check_present(data_of(path))
    for txt_split in ("lines", "blank-lines", "file"):
        check_present(data_of(path, txt_split=txt_split))
    path.write_text(f"{text}<|endoftext|>\n")
    check_present(data_of(path))


def test_a_byte_order_mark_before_jsonl_is_no_part_of_it(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "one"}\r\n{"text": "two"}\r\n')
    assert list(read_documents([tmp_path / "a.jsonl"], "text")) == ["one", "two"]


def test_a_folder_is_all_its_files_in_the_order_of_their_names(tmp_path):
    for name in ("b/2.txt", "a.txt", "b/10.TXT", ".hidden.txt", ".git/x.txt", "notes.md", "b.gone/z.txt.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = name.encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    data = DataConfig(source="files", train_files=(str(tmp_path),), validation_files=(str(tmp_path / "b"),))
    assert list(documents(data, "train")) == ["a.txt", "b/10.TXT", "b/2.txt", "b.gone/z.txt.gz"]
    assert list(documents(data, "validation")) == ["b/10.TXT", "b/2.txt"]


def test_a_folder_of_several_kinds_is_refused_and_one_without_text_says_what_it_has(tmp_path):
    (tmp_path / "a.csv").write_text("x")
    with pytest.raises(UsageError, match=r"has no file of a known format .*; it has 1 \.csv"):
        check_present(data_of(tmp_path))
    (tmp_path / "a.arrow").touch()
    with pytest.raises(
        UsageError, match=r"it has 1 \.arrow, 1 \.csv; datasets\.load_from_disk\(FOLDER\)\.to_json"
    ):
        check_present(data_of(tmp_path))
    for name in ("a.txt", "b.txt.gz", "c.jsonl"):
        (tmp_path / name).write_text("x")
    with pytest.raises(UsageError, match=r"files of several kinds \(2 .txt, 1 .jsonl\); name those .*\*.txt"):
        check_present(data_of(tmp_path))


def test_limits(tmp_path):
    data = data_of(write_corpus(tmp_path, "a.txt"), max_documents=3)
    assert list(documents(data, "train")) == STORIES[1:3]


def test_blank_documents_are_left_out_and_no_other_are_too_few(tmp_path):
    path = write_corpus(tmp_path, "a.jsonl", ["one", "  \n", "two"])
    assert list(documents(data_of(path), "train")) == ["two"]
    (tmp_path / "b.txt").touch()
    path.write_text("")
    both = DataConfig(source="files", train_files=(str(path), str(tmp_path / "b.txt")))
    with pytest.raises(UsageError, match=r"has no train document .*; a .txt is split by --data.txt-split"):
        list(documents(both, "train"))


def test_a_parquet_file_has_the_field_that_is_named(tmp_path):
    path = write_corpus(tmp_path, "a.parquet", field="story")
    assert list(documents(data_of(path, text_field="story"), "train")) == STORIES[1:]
    with pytest.raises(UsageError, match=r"no field 'text' \(has: story\); set --data.text-field"):
        list(documents(data_of(path), "train"))


def test_the_fingerprint_is_of_the_bytes_and_of_what_they_do_not_say(tmp_path):
    for name in ("one.jsonl", "one.txt"):
        (tmp_path / name).write_bytes(b'{"text": "one"}\n')
    assert fingerprint(data_of(tmp_path / "one.jsonl")) != fingerprint(data_of(tmp_path / "one.txt"))
    for name, content in (("a.txt", b"One.\r\n\r\nTwo.\n"), ("a.jsonl", b'{"text": "a"}\r\n')):
        (tmp_path / name).write_bytes(content)
        digest = hashlib.sha256(hashlib.sha256(content).digest()).hexdigest()[:16]
        assert fingerprint(data_of(tmp_path / name)) == digest


def test_tinystories_folder(shared_data):
    data = DataConfig(source="tinystories", tinystories_dir=str(shared_data / "tinystories"))
    assert sum(1 for _ in documents(data, "train")) == 11_390
    assert sum(1 for _ in documents(data, "validation")) == 600


def test_the_hubs_corpus_is_told_from_a_folder_and_from_a_part_of_it():
    hub, own, part = (
        DataConfig(source="tinystories", **options)
        for options in ({}, {"tinystories_dir": "a"}, {"max_documents": 3})
    )
    assert [describe(data) for data in (hub, own)] == ["roneneldan/TinyStories (Hugging Face hub)", "a"]
    assert [is_whole_hub(data) for data in (hub, own, part)] == [True, False, False]


def test_embedded_stories():
    data = DataConfig(num_stories=200)
    train, held_out = list(documents(data, "train")), list(documents(data, "validation"))
    assert (len(train), len(held_out)) == (198, 2)
    assert fingerprint(data) != fingerprint(DataConfig(num_stories=201))


def test_a_run_on_the_grammar_goes_on_wherever_the_grammar_lies():
    # Computed when it was the package `pretrain.embedded`. Another value refuses to continue the runs of
    # before and prepares their corpus again: right where the texts change, and nowhere else.
    assert fingerprint(DataConfig()) == "54cf56931083f9fe"


def test_what_a_run_is_judged_on_is_every_second_held_out_document(tmp_path):
    path = write_corpus(tmp_path, "a.jsonl", [f"story {number}" for number in range(40)])
    for part, places in (("all", range(0, 40, 4)), ("even", range(0, 40, 8)), ("odd", range(4, 40, 8))):
        assert list(held_out(data_of(path, validation_part=part))) == [f"story {n}" for n in places]


# What is said of texts before anything is trained on them.
TEXTS = [f"This is document number {number:03}, and has two\nlines." for number in range(40)]


def data_of_files(*paths: Path, **options) -> DataConfig:
    return data_of(*paths, validation_fraction=0.1, **options)


def test_the_line_has_files_documents_characters_and_what_is_held_out(tmp_path):
    data = data_of_files(write_corpus(tmp_path, "a.jsonl", TEXTS))
    summary, size = read_through(data), (tmp_path / "a.jsonl").stat().st_size
    held_out = TEXTS[::10]
    characters = sum(map(len, TEXTS)) - sum(map(len, held_out))
    assert summary == TextSummary(train=36, validation=4, characters=characters, longest=len(TEXTS[0]))
    assert in_one_line(data, summary) == (
        f"{tmp_path}/a.jsonl: 1 file (.jsonl; {size / 1000:.2f}kB), 36 documents, {characters:,} "
        "characters; held out: 4 more, 1 document in 10"
    )


@pytest.mark.parametrize(("most", "is_cut"), [(None, False), (5, False), (3, True)])
def test_the_line_says_that_held_out_documents_are_dropped(tmp_path, most, is_cut):
    data = data_of_files(write_corpus(tmp_path, "a.jsonl", TEXTS), max_validation_documents=most)
    summary = read_through(data)
    assert summary.validation == (most if is_cut else 4)
    assert ("max_validation_documents" in in_one_line(data, summary)) == is_cut


def test_files_of_their_own_are_named_as_such(tmp_path):
    train = write_corpus(tmp_path, "a.jsonl", TEXTS)
    held_out = write_corpus(tmp_path, "b.jsonl", [*TEXTS[:11], "new"])
    data = data_of_files(train, validation_files=(str(held_out),))
    assert in_one_line(data, read_through(data)).endswith(f"held out: 12 of {held_out}")
    (doubt,) = doubts(data, read_through(data))
    assert doubt.startswith("note: 11 of 12 held-out documents are also trained on")
    assert "sort -u FILE > NEW" in doubt
    write_corpus(tmp_path, "b.jsonl", TEXTS[:12])
    with pytest.raises(UsageError, match="all 12 held-out documents are also trained on; give"):
        read_through(data)


@pytest.mark.parametrize(
    ("held_out", "shared"),
    [(["new text"] * 12, 0), (["new text", *TEXTS[3:6]] * 4, 12), ([f" {TEXTS[0]}\n", TEXTS[0].upper()], 1)],
)
def test_documents_on_both_sides_are_counted_once_for_each_that_is_held_out(tmp_path, held_out, shared):
    train = write_corpus(tmp_path, "a.jsonl", TEXTS * 2)
    data = data_of_files(train, validation_files=(str(write_corpus(tmp_path, "b.jsonl", held_out)),))
    doubt = f"note: {shared} of {len(held_out)} held-out documents are also trained on"
    *others, repeated = doubts(data, read_through(data))
    assert [line[: len(doubt)] for line in others] == [doubt] * bool(shared)
    assert repeated.startswith("note: 40 of 80 documents are different; sort -u")
    # Held out are 0, 10, 20, 30, "other" and again 9, of which 0, 9 and 10 are trained on.
    data = data_of_files(write_corpus(tmp_path, "c.jsonl", [*TEXTS, "other", *TEXTS[:11]]))
    assert (read_through(data).shared, read_through(data).validation) == (3, 6)


@pytest.mark.parametrize(("txt_split", "documents", "words"), listed(__file__, "ends of documents"))
def test_what_ends_a_document_of_a_txt_is_said(tmp_path, txt_split, documents, words):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("\n\n".join(TEXTS).encode()))
    held_out = write_corpus(tmp_path, "b.jsonl", ["new"])
    data = data_of_files(path, txt_split=txt_split, validation_files=(str(held_out),))
    summary = read_through(data)
    assert summary.train == documents
    assert f" {documents} documents ({words}; otherwise: --data.txt-split), " in in_one_line(data, summary)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (TEXTS, "only 5 held out; give more by --data.validation-files"),
        (TEXTS, "dev.jsonl is trained on; if it is held out, give it by"),
        (["7"] * 200, "a document has 1 characters on average; if that is no text, set --data.text-field"),
        (TEXTS, "not read, as of other formats: 2 .png; what is text must end in .txt"),
        (["word " * 30_000] * 2, "the longest document has 149,999 characters; if it is many, set"),
    ],
)
def test_what_looks_wrong_is_told_with_a_cure(tmp_path, texts, words):
    write_corpus(tmp_path, "a.jsonl", texts)
    write_corpus(tmp_path, "dev.jsonl", ["b"])
    (tmp_path / "a.png").touch()
    (tmp_path / "b.png").touch()
    data = data_of_files(tmp_path)
    assert any(words in doubt for doubt in doubts(data, read_through(data)))
