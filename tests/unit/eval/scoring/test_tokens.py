"""Tokens are kept for the next run of a study, and only for one that would make the same."""

from __future__ import annotations

import copy

import pytest

from eval.protocol import ProtocolConfig, preset_protocol
from eval.scoring.scored_tokens import TextTokenizer, forget_tokens
from ffn_variants import UsageError
from pretrain.data.embedded import stories
from pretrain.data.tokenizer import train_tokenizer

PAIRS = (("", "the dog ran"), ("the dog ", "sees the cat"), ("the dog", " sees the cat"))


def tokenizer_of(seed: int):
    return train_tokenizer(iter(stories(100, seed)), 400)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_of(0)


@pytest.fixture(autouse=True)
def _nothing_kept():
    forget_tokens()


def texts_of(tokenizer, preset="native", num_positions=64, objective="causal", **changes):
    protocol = ProtocolConfig(preset=preset, **changes).resolve(objective)
    return TextTokenizer(tokenizer, protocol, num_positions).encode(PAIRS)


def test_tokens_are_kept_by_content(tokenizer):
    first = texts_of(tokenizer)
    # Another run loads a tokenizer of its own; its content is the same.
    assert texts_of(tokenizer_of(0)) is first
    assert texts_of(tokenizer, num_positions=32) is not first
    assert texts_of(tokenizer, "babylm23") != first
    assert texts_of(tokenizer_of(1)) != first
    forget_tokens()
    again = texts_of(tokenizer)
    assert again is not first
    assert again == first


def test_where_a_space_stands_changes_nothing(tokenizer):
    _, before, after = texts_of(tokenizer)
    assert before == after
    assert tokenizer.decode(before.input_ids[before.start : before.end]) == " sees the cat"


def test_words_are_told_where_they_are_needed(tokenizer):
    assert all(text.words is None for text in texts_of(tokenizer, objective="masked"))
    for text in texts_of(tokenizer, objective="masked", masking="within_word_l2r"):
        inside = [word for word in text.words if word >= 0]
        assert len(text.words) == len(text.input_ids)
        assert inside == sorted(inside)
        assert len(set(inside)) < len(inside)  # some word has several tokens
        assert (text.words[0], text.words[-1]) == (-1, -2)


def test_a_text_that_does_not_fit_is_named_or_loses_its_beginning(tokenizer):
    long = (" ".join(["the dog"] * 40), " ran away")

    def encode(overflow, pair=long, objective="causal"):
        protocol = ProtocolConfig(overflow=overflow).resolve(objective)
        return TextTokenizer(tokenizer, protocol, 32).encode((pair,))[0]

    with pytest.raises(UsageError, match=r"does not fit the model's 32 positions: 'the dog .*truncate"):
        encode("error")
    whole = TextTokenizer(tokenizer, preset_protocol("native", "causal"), 512).encode((long,))[0]
    for objective, limit, end in (("causal", 33, []), ("masked", 32, [2])):
        text = encode("truncate", objective=objective)
        expected = [*whole.input_ids, *end][-limit:]
        assert list(text.input_ids) == expected
        assert text.input_ids[text.start : text.end] == whole.input_ids[whole.start : whole.end]
    # What is scored is never cut.
    with pytest.raises(UsageError, match=r"leave it out or use a model with more positions$"):
        encode("truncate", ("", long[0]))


@pytest.mark.parametrize(
    ("pair", "choices", "message"),
    [
        (("", ""), {}, "nothing to score in"),
        (("the dog", ""), {}, "nothing to score in"),
        (("", "."), {"prefix": "none"}, "only a first one that no prefix stands before"),
    ],
)
def test_nothing_to_score_is_named(tokenizer, pair, choices, message):
    protocol = ProtocolConfig(**choices).resolve("causal")
    with pytest.raises(UsageError, match=message):
        TextTokenizer(tokenizer, protocol, 32).encode((pair,))


def test_a_special_token_that_is_missing_is_named(tokenizer):
    without = copy.deepcopy(tokenizer)
    without.eos_token = without.sep_token = None
    with pytest.raises(UsageError, match="no eos_token"):
        TextTokenizer(without, preset_protocol("babylm23", "causal"), 32)
