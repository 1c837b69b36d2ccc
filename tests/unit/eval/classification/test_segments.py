"""Segments: sentence marks, windows, turns, their tokens and their characters."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from base.errors import UsageError
from eval.classification.segments import (
    Segmentation,
    Segmented,
    as_one_text,
    encode_segments,
    sentence_starts,
)

WORDS = ["the", "film", "is", "good", "bad", ".", "!", "a", "b", "c", "d", "e", "f", "g", "h"]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """Words and marks as tokens, between <s> and </s>; a pair as RoBERTa joins it."""
    names = ["<pad>", "<s>", "</s>", "<unk>", *WORDS]
    backend = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, "<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


@pytest.fixture(scope="module")
def byte_level(shared_data: Path) -> PreTrainedTokenizerFast:
    """The source study's tokenizer, whose tokens begin with the space before a word."""
    return PreTrainedTokenizerFast(tokenizer_file=str(shared_data / "tokenizer-10k" / "tokenizer.json"))


def texts_of(data: Segmented, examples: list, number: int = 0) -> list[str]:
    """The characters of an example's segments."""
    first = data.starts[number]
    text = as_one_text(examples[number])
    return [text[a:b] for a, b in data.spans[first : first + data.counts[number]]]


def ids_of(data: Segmented, number: int) -> list[int]:
    return data.pieces.take([number]).tokens.tolist()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("it is good . it was bad . . . what ?", ["it is good .", "it was bad . . .", "what ?"]),
        ('He said "Hi!" Then (he left.) So', ['He said "Hi!"', "Then (he left.)", "So"]),
        (
            "Mr. J. Smith of the U.S. paid 3.5 e.g. here. Yes.",
            ["Mr. J. Smith of the U.S. paid 3.5 e.g. here.", "Yes."],
        ),
        ("It was I. She left", ["It was I.", "She left"]),
        ("\u4eca\u5929\u3002\u597d\uff01\u4f60", ["\u4eca\u5929\u3002", "\u597d\uff01", "\u4f60"]),
        ("A title\n\nA line\nof text", ["A title", "A line\nof text"]),
        ("no mark at all", ["no mark at all"]),
        ("... well . no", ["... well .", "no"]),
        ("!!!", ["!!!"]),
        ("", [""]),
    ],
)
def test_sentences_end_at_their_marks(text: str, sentences: list[str]) -> None:
    found = [text[a:b] for a, b in pairwise([*sentence_starts(text), len(text)])]
    assert "".join(found) == text
    assert [part.strip() for part in found] == sentences


@pytest.mark.parametrize("text", ["." * 200_000, ". " * 100_000, "\n" * 200_000, '."' * 100_000 + "a"])
def test_splitting_takes_linear_time(text: str) -> None:
    begin = time.process_time()
    sentence_starts(text)
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(("window", "stride"), [(6, 0), (6, 2), (7, 4), (20, 3)])
def test_windows_overlap_and_cover(tokenizer: PreTrainedTokenizerFast, window: int, stride: int) -> None:
    letters = list("abcdefghacegbdfha")
    examples = [(" ".join(letters[:size]), None) for size in range(1, 18)]
    data = encode_segments(tokenizer, examples, [0] * 17, Segmentation(window=window, stride=stride), 512)
    for number, size in enumerate(range(1, 18)):
        expected, start = [], 0
        while True:  # the definition, one window after another
            expected.append(letters[start : min(start + window - 2, size)])
            if start + window - 2 >= size:
                break
            start += window - 2 - stride
        got = [str(tokenizer.decode(ids_of(data, piece))).split() for piece in _pieces(data, number)]
        assert all(ids[0] == "<s>" and ids[-1] == "</s>" and len(ids) <= window for ids in got)
        assert [ids[1:-1] for ids in got] == expected
        assert [text.split() for text in texts_of(data, examples, number)] == expected


def _pieces(data: Segmented, number: int) -> range:
    return range(data.starts[number], data.starts[number] + data.counts[number])


def test_one_window_is_the_usual_input(tokenizer: PreTrainedTokenizerFast) -> None:
    examples = [("the film is good", "a b ."), ("a", "c d")]
    data = encode_segments(tokenizer, examples, [0, 1], Segmentation(), 512)
    assert data.counts.tolist() == [1, 1]
    for number, (first, second) in enumerate(examples):
        assert ids_of(data, number) == tokenizer(first, second)["input_ids"]
    assert texts_of(data, examples, 1) == ["a c d"]


def test_a_pair_is_cut_as_one(tokenizer: PreTrainedTokenizerFast) -> None:
    examples = [("a b . c d .", "e . f")]
    windows = encode_segments(tokenizer, examples, [0], Segmentation(window=8, stride=1), 512)
    assert [tokenizer.decode(ids_of(windows, piece)) for piece in range(windows.counts[0])] == [
        "<s> a b . c d . </s>",
        "<s> . </s> </s> e . f </s>",
    ]
    sentences = encode_segments(tokenizer, examples, [0], Segmentation(segments="sentences"), 512)
    assert texts_of(sentences, examples) == ["a b .", "c d .", "e .", "f"]
    assert tokenizer.decode(ids_of(sentences, 2)) == "<s> e . </s>"


def test_a_long_sentence_is_cut_into_windows(tokenizer: PreTrainedTokenizerFast) -> None:
    examples = [("a b c d e . f", None)]
    cut = Segmentation(segments="sentences", window=6, stride=1)
    data = encode_segments(tokenizer, examples, [0], cut, 512)
    assert texts_of(data, examples) == ["a b c d", "d e .", "f"]
    shorter = encode_segments(tokenizer, examples, [0], Segmentation(segments="sentences", stride=1), 6)
    assert texts_of(shorter, examples) == texts_of(data, examples)


def test_a_text_without_a_mark_is_one_segment(tokenizer: PreTrainedTokenizerFast) -> None:
    cut = Segmentation(segments="sentences")
    data = encode_segments(tokenizer, [("the film is good", None)], [1], cut, 512)
    assert ids_of(data, 0) == tokenizer("the film is good")["input_ids"]
    assert data.counts.tolist() == [1]


def test_turns_are_the_strings_given_or_lines(tokenizer: PreTrainedTokenizerFast) -> None:
    examples = [(["a b . c", "", "d\ne"], None), ("a b .\n\n c\nd", None)]
    data = encode_segments(tokenizer, examples, [0, 1], Segmentation(segments="turns"), 512)
    assert texts_of(data, examples, 0) == ["a b . c", "d\ne"]
    assert texts_of(data, examples, 1) == ["a b .", "c", "d"]
    assert data.pieces.labels.tolist() == [0, 0, 1, 1, 1]


def test_take_gives_whole_examples(tokenizer: PreTrainedTokenizerFast) -> None:
    examples = [("a . b . c .", None), ("d", None), ("e . f .", None)]
    cut = Segmentation(segments="sentences")
    labels = np.array([[1, 0], [0, 1], [1, 1]])
    data = encode_segments(tokenizer, examples, labels, cut, 512, ["x", "y", "z"])
    assert data.lengths.tolist() == [12, 3, 8]
    part = data.take([2, 0, 2])
    assert part.idx.tolist() == ["z", "x", "z"]
    assert part.labels.tolist() == [[1, 1], [1, 0], [1, 1]]
    assert part.lengths.tolist() == [8, 12, 8]
    again = [examples[2], examples[0], examples[2]]
    assert [texts_of(part, again, number) for number in range(3)] == [
        ["e .", "f ."], ["a .", "b .", "c ."], ["e .", "f ."]
    ]  # fmt: skip
    assert [tokenizer.decode(ids_of(part, piece)) for piece in (0, 4)] == ["<s> e . </s>", "<s> c . </s>"]
    assert len(data.take([])) == 0
    assert data.take([]).lengths.tolist() == []


def test_tokens_with_spaces_keep_to_their_sentence(byte_level: PreTrainedTokenizerFast) -> None:
    text = "Once upon a time, there was \u00e9t\u00e9 \U0001f600. The dog ran away!  So it goes"
    data = encode_segments(byte_level, [(text, None)], [0], Segmentation(segments="sentences"), 512)
    assert texts_of(data, [(text, None)]) == [
        "Once upon a time, there was \u00e9t\u00e9 \U0001f600.", "The dog ran away!", "So it goes"
    ]  # fmt: skip
    inner = [str(byte_level.decode(ids_of(data, piece), skip_special_tokens=True)) for piece in range(3)]
    assert "".join(inner) == text
    whole = byte_level(text, add_special_tokens=False)["input_ids"]
    around = len(byte_level("")["input_ids"])
    assert data.lengths[0] == len(whole) + 3 * around


@pytest.mark.parametrize("text", ["", " \n ", [], ["", " "]])
def test_an_empty_text_is_named(tokenizer: PreTrainedTokenizerFast, text: str | list[str]) -> None:
    with pytest.raises(UsageError, match=r"row 2: the text is empty; remove the row"):
        encode_segments(tokenizer, [("a", None), (text, None)], [0, 0], Segmentation(), 512)


def test_one_empty_text_of_a_pair_is_none(tokenizer: PreTrainedTokenizerFast) -> None:
    data = encode_segments(tokenizer, [("", "a b")], [0], Segmentation(segments="sentences"), 512)
    assert texts_of(data, [("", "a b")]) == ["a b"]


@pytest.mark.parametrize(("window", "stride"), [(2, 0), (10, 8), (40, 60)])
def test_a_window_without_room_is_refused(
    tokenizer: PreTrainedTokenizerFast, window: int, stride: int
) -> None:
    with pytest.raises(UsageError, match="greater window or a smaller stride"):
        encode_segments(tokenizer, [("a", None)], [0], Segmentation(window=window, stride=stride), 512)


def test_pairs_and_single_texts_do_not_mix(tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(UsageError, match="give a task one kind"):
        encode_segments(tokenizer, [("a", None), ("a", "b")], [0, 0], Segmentation(), 512)
