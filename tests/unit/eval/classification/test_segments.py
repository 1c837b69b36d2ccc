"""Segments: sentence marks, windows, turns, their tokens and their characters."""

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
from tests.cases import listed

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


@pytest.mark.parametrize(("text", "sentences"), listed(__file__, "sentences"))
def test_sentences_end_at_their_marks(text: str, sentences: tuple[str, ...]) -> None:
    found = [text[a:b] for a, b in pairwise([*sentence_starts(text), len(text)])]
    assert "".join(found) == text
    assert tuple(part.strip() for part in found) == sentences


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
        expected, start = [letters[: min(window - 2, size)]], 0
        while start + window - 2 < size:  # the definition, one window after another
            start += window - 2 - stride
            expected.append(letters[start : min(start + window - 2, size)])
        pieces = range(data.starts[number], data.starts[number] + data.counts[number])
        got = [str(tokenizer.decode(ids_of(data, piece))).split() for piece in pieces]
        assert got == [["<s>", *part, "</s>"] for part in expected]
        assert [text.split() for text in texts_of(data, examples, number)] == expected


@pytest.mark.parametrize("segments", ["windows", "sentences"])
def test_one_segment_is_the_usual_input(tokenizer: PreTrainedTokenizerFast, segments: str) -> None:
    examples = [("the film is good", "a b"), ("a", "c d")] if segments == "windows" else [("c d e", None)]
    data = encode_segments(tokenizer, examples, [0] * len(examples), Segmentation(segments=segments), 512)
    assert data.counts.tolist() == [1] * len(examples)
    for number, example in enumerate(examples):
        assert ids_of(data, number) == tokenizer(*example)["input_ids"]
        assert texts_of(data, examples, number) == [" ".join(filter(None, example))]


def test_a_pair_is_cut_as_one(tokenizer: PreTrainedTokenizerFast) -> None:
    examples = [("a b . c d .", "e . f")]
    windows = encode_segments(tokenizer, examples, [0], Segmentation(window=8, stride=1), 512)
    found = [tokenizer.decode(ids_of(windows, piece)) for piece in range(windows.counts[0])]
    assert found == ["<s> a b . c d . </s>", "<s> . </s> </s> e . f </s>"]
    sentences = encode_segments(tokenizer, examples, [0], Segmentation(segments="sentences"), 512)
    assert texts_of(sentences, examples) == ["a b .", "c d .", "e .", "f"]
    assert tokenizer.decode(ids_of(sentences, 2)) == "<s> e . </s>"
    half = [("", "a b")]  # one of a pair may be empty
    assert texts_of(encode_segments(tokenizer, half, [0], Segmentation(), 512), half) == ["a b"]


def test_a_long_sentence_is_cut_into_windows(tokenizer: PreTrainedTokenizerFast) -> None:
    examples = [("a b c d e . f", None)]
    cut = Segmentation(segments="sentences", window=6, stride=1)
    data = encode_segments(tokenizer, examples, [0], cut, 512)
    assert texts_of(data, examples) == ["a b c d", "d e .", "f"]
    shorter = encode_segments(tokenizer, examples, [0], Segmentation(segments="sentences", stride=1), 6)
    assert texts_of(shorter, examples) == texts_of(data, examples)


def test_turns_are_the_strings_given_or_lines(tokenizer: PreTrainedTokenizerFast) -> None:
    examples = [(["a b . c", "", "d\ne"], None), ("a b .\n\n c\nd", None)]
    data = encode_segments(tokenizer, examples, [0, 1], Segmentation(segments="turns"), 512)
    assert texts_of(data, examples, 0) == ["a b . c", "d\ne"]
    assert texts_of(data, examples, 1) == ["a b .", "c", "d"]
    assert data.pieces.labels.tolist() == [0, 0, 1, 1, 1]


def test_take_gives_whole_examples(tokenizer: PreTrainedTokenizerFast) -> None:
    examples = [("a . b . c .", None), ("d", None), ("e . f .", None)]
    labels = np.array([[1, 0], [0, 1], [1, 1]])
    cut = Segmentation(segments="sentences")
    data = encode_segments(tokenizer, examples, labels, cut, 512, ["x", "y", "z"])
    assert data.lengths.tolist() == [12, 3, 8]
    part, again = data.take([2, 0, 2]), [examples[2], examples[0], examples[2]]
    assert part.idx.tolist() == ["z", "x", "z"]
    assert part.labels.tolist() == [[1, 1], [1, 0], [1, 1]]
    assert part.lengths.tolist() == [8, 12, 8]
    found = [texts_of(part, again, number) for number in range(3)]
    assert found == [["e .", "f ."], ["a .", "b .", "c ."], ["e .", "f ."]]
    assert [tokenizer.decode(ids_of(part, piece)) for piece in (0, 4)] == ["<s> e . </s>", "<s> c . </s>"]
    assert data.take([]).lengths.tolist() == []


def test_tokens_with_spaces_keep_to_their_sentence(byte_level: PreTrainedTokenizerFast) -> None:
    sentences = ["Once upon a time, there was \u00e9t\u00e9 \U0001f600.", "The dog ran away!", "So it goes"]
    text = "{} {}  {}".format(*sentences)
    data = encode_segments(byte_level, [(text, None)], [0], Segmentation(segments="sentences"), 512)
    assert texts_of(data, [(text, None)]) == sentences
    inner = [str(byte_level.decode(ids_of(data, piece), skip_special_tokens=True)) for piece in range(3)]
    assert "".join(inner) == text
    whole, around = (byte_level(t, add_special_tokens=not t)["input_ids"] for t in (text, ""))
    assert data.lengths[0] == len(whole) + 3 * len(around)


@pytest.mark.parametrize(
    ("examples", "cut", "message"),
    [
        ([("a", None), (" \n ", None)], {}, "row 2: the text is empty; remove the row"),
        ([("a", None), (["", " "], None)], {}, "row 2: the text is empty; remove the row"),
        ([("a", None), ("a", "b")], {}, "give a task one kind"),
        ([("a", None)], {"window": 2, "stride": 0}, "greater window or a smaller stride"),
        ([("a", None)], {"window": 10, "stride": 8}, "greater window or a smaller stride"),
    ],
)
def test_what_cannot_be_cut_is_named(tokenizer: PreTrainedTokenizerFast, examples, cut, message) -> None:
    with pytest.raises(UsageError, match=message):
        encode_segments(tokenizer, examples, [0] * len(examples), Segmentation(**cut), 512)
