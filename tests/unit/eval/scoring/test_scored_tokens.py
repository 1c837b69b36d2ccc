"""What is read of a text: ordinary text, kept for the next run, the same by every reader."""

import ast
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import (
    AutoTokenizer,
    ByT5Tokenizer,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

from base.files import PACKAGES
from base.text.tokens import as_prompts, read, read_tokenizer, read_whole
from eval.classification.classifier import load_backbone, load_classifier, load_classifier_tokenizer
from eval.classification.example_tokens import encode, tokenizer_key
from eval.classification.segments import Segmentation, encode_segments
from eval.protocol import ProtocolConfig, preset_protocol
from eval.scoring.scored_tokens import TextTokenizer
from eval.scoring.scorers import SCORERS
from ffn_variants import UsageError, build_model
from pretrain.data.embedded import stories
from pretrain.data.tokenizer import encode_batch, train_tokenizer
from pretrain.sampling import continue_texts
from tests.cases import listed

# Tokens are kept for the next run of a study, and only for one that would make the same.
PAIRS = (("", "the dog ran"), ("the dog ", "sees the cat"), ("the dog", " sees the cat"))


def tokenizer_of(seed: int):
    return train_tokenizer(iter(stories(100, seed)), 400)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_of(0)


@pytest.fixture(autouse=True)
def _nothing_kept():
    TextTokenizer.encode.cache_clear()


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
    TextTokenizer.encode.cache_clear()
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
    with pytest.raises(UsageError, match=r"leave it out or .*data.block_size \d+ or more$") as told:
        encode("truncate", ("", long[0]))
    room = TextTokenizer(tokenizer, preset_protocol("native", "causal"), told.value.positions)
    assert len(room.encode((("", long[0]),))[0].input_ids) == told.value.positions + 1


@pytest.mark.parametrize(("pair", "choices", "message"), listed(__file__, "nothing to score"))
def test_nothing_to_score_is_named(tokenizer, pair, choices, message):
    protocol = ProtocolConfig(**choices).resolve("causal")
    with pytest.raises(UsageError, match=message):
        TextTokenizer(tokenizer, protocol, 32).encode((pair,))


def test_a_special_token_that_is_missing_is_named(tokenizer):
    without = copy.deepcopy(tokenizer)
    without.eos_token = without.sep_token = None
    with pytest.raises(UsageError, match="no eos_token"):
        TextTokenizer(without, preset_protocol("babylm23", "causal"), 32)


# A text that spells special tokens is ordinary text to whatever reads it: training, evaluation, prompts.
TEXT = "Tom said </s> to the <mask> dog<pad> and <s> the </s>. He was glad."


@pytest.fixture(scope="module")
def wanted(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """What the same merges make of the characters where there is no special token that could be spelled."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    plain = Tokenizer.from_str(json.dumps(content | {"added_tokens": [], "post_processor": None}))
    return plain.encode(TEXT).ids


def scored(tokenizer: Any, objective: str, **protocol: Any) -> list[int]:
    resolved = ProtocolConfig(**protocol).resolve(objective)
    (text,) = TextTokenizer(tokenizer, resolved, 200).encode((("", TEXT),))
    return list(text.input_ids)


def windowed(tokenizer: Any) -> list[int]:
    (text,) = TextTokenizer(tokenizer, ProtocolConfig().resolve("causal"), 200).windows(TEXT)
    return list(text.input_ids)


def prompted(tokenizer: Any) -> list[int]:
    model = Mock(config=Mock(max_position_embeddings=200), device=torch.device("cpu"))
    model.eval.return_value.generate.side_effect = lambda ids, **_: ids
    with patch.object(type(tokenizer), "decode", lambda _, ids, **__: ids.tolist()):
        (ids,) = continue_texts(model, tokenizer, [TEXT], 1)
    return ids  # type: ignore[return-value]


READERS: dict[str, Callable[[Any], Any]] = {
    "training": lambda tokenizer: encode_batch(tokenizer, [TEXT])[0],
    "perplexity": windowed,
    "minimal pairs, causal": lambda tokenizer: scored(tokenizer, "causal"),
    "minimal pairs, masked": lambda tokenizer: scored(tokenizer, "masked", masking="within_word_l2r"),
    "classification": lambda tokenizer: encode(tokenizer, [(TEXT, None)], [0], 200).tokens,
    "classification of pairs": lambda tokenizer: encode(tokenizer, [("", TEXT)], [0], 200).tokens,
    "segments": lambda tokenizer: (
        encode_segments(tokenizer, [(TEXT, None)], [0], Segmentation(window=200), 200).pieces.tokens
    ),
    "one by one": lambda tokenizer: read(tokenizer, TEXT)["input_ids"],
    "prompts": lambda tokenizer: prompted(tokenizer),
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_the_same_characters(reader, tokenizer, wanted):
    TextTokenizer.encode.cache_clear()
    frames = {tokenizer.bos_token_id, tokenizer.eos_token_id}
    ids = list(map(int, READERS[reader](tokenizer)))
    assert len(wanted) > len(tokenizer(TEXT, add_special_tokens=False)["input_ids"])  # control tokens there
    assert [token for token in ids if token not in frames] == wanted
    # Whoever calls the tokenizer himself finds it as it was.
    assert tokenizer(TEXT)["input_ids"].count(tokenizer.mask_token_id) == 1


@pytest.mark.parametrize("with_words", [False, True])
def test_a_tokenizer_is_left_as_it_was(tokenizer, with_words):
    backend = tokenizer.backend_tokenizer
    for before in (True, False):
        backend.encode_special_tokens = before
        read_whole(backend, [TEXT], is_framed=True, with_words=with_words)
        assert backend.encode_special_tokens is before


def test_a_tokenizer_in_python_reads_text_too():
    ids = read(ByT5Tokenizer(), "a</s>b")["input_ids"]
    assert ids == [3 + byte for byte in b"a</s>b"] + [1]


def test_texts_are_tokenised_in_one_place(repository: Path):
    """Calls of a tokenizer on a name: elsewhere they are of constants."""
    known = {
        "base/text/tokens.py",  # what stands around "a"
        "pretrain/data/tokenizer.py",  # the same
    }
    calling = {
        path.relative_to(repository).as_posix()
        for package in PACKAGES
        for path in (repository / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _tokenises(node.func)
    }
    assert calling == known


def _tokenises(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return function.attr in ("tokenize", "encode_batch_fast", "batch_encode_plus", "encode_plus")
    return isinstance(function, ast.Name) and function.id == "tokenizer"


# What a classifier and a scorer read of a text does not depend on which tokenizer a causal model has.
STORIES = stories(60, 0)


@pytest.fixture(scope="module")
def wrapping() -> PreTrainedTokenizerBase:
    """Of a model of before: every text is wrapped."""
    return train_tokenizer(iter(STORIES), 300)


@pytest.fixture
def folders(wrapping, tmp_path) -> tuple[Path, Path]:
    """Where the tokenizers of a model of before and of one of now lie."""
    wrapping.save_pretrained(tmp_path / "before")
    as_prompts(wrapping).save_pretrained(tmp_path / "now")
    return tmp_path / "before", tmp_path / "now"


@pytest.mark.parametrize("is_pair", [False, True])
def test_classifiers_read_what_they_read_before(folders, is_pair):
    raw = AutoTokenizer.from_pretrained(folders[0])  # the route of before
    before, now = (load_classifier_tokenizer(folder) for folder in folders)
    # What is kept of one run serves the other.
    assert tokenizer_key(before) == tokenizer_key(now)
    texts = [(story, STORIES[-1][: 5 * n] if is_pair else None) for n, story in enumerate(STORIES)]
    labels = [0] * len(texts)
    for max_length in (512, 20):
        plain = [encode(each, texts, labels, max_length) for each in (raw, before, now)]
        assert plain[0].tokens[[0, -1]].tolist() == [raw.bos_token_id, raw.eos_token_id]
        for each in plain[1:]:
            np.testing.assert_equal(vars(each), vars(plain[0]))
    for segments in ("windows", "sentences"):
        cutting = Segmentation(segments=segments, window=40, stride=8)
        cuts = [encode_segments(each, texts, labels, cutting, 512) for each in (raw, before, now)]
        assert len(cuts[0].pieces) > len(texts)
        for each in cuts[1:]:
            np.testing.assert_equal(vars(each.pieces), vars(cuts[0].pieces))
            np.testing.assert_array_equal(each.spans, cuts[0].spans)


def test_scores_of_texts_are_those_of_before(wrapping, tmp_path):
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "max_position_embeddings": 64}
    model = build_model("gpt_neo", "gelu", vocab_size=len(wrapping), **sizes)
    as_prompts(wrapping).save_pretrained(tmp_path)
    pairs = [("", story[:40]) for story in STORIES] + [(story[:30], story[30:50]) for story in STORIES]
    for preset in ("native", "lm-eval", "babylm23", "babylm25"):
        scorers = [SCORERS["causal"](model, each, preset) for each in (wrapping, read_tokenizer(tmp_path))]
        before, now = (scorer.score_continuations(pairs) for scorer in scorers)
        np.testing.assert_array_equal(before.log_likelihood, now.log_likelihood)
        before, now = (scorer.score_documents(STORIES[:3]) for scorer in scorers)
        assert before == now


@pytest.mark.parametrize("own", [0, 1])
def test_a_roberta_keeps_the_positions_that_it_was_trained_with(wrapping, tmp_path, own):
    """A tokenizer beside it that pads with another token than its config names moves none of them."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = RobertaConfig(
        vocab_size=len(wrapping), max_position_embeddings=32, pad_token_id=own, initializer_range=0.5, **sizes
    )
    saved = RobertaModel(config).eval()
    saved.save_pretrained(tmp_path)
    wrapping.save_pretrained(tmp_path)
    tokenizer = load_classifier_tokenizer(tmp_path)
    assert tokenizer.pad_token_id == 0
    ids = torch.arange(5, 35 - 2 * own).view(2, -1)
    right = saved(ids).last_hidden_state
    for loaded in (load_backbone(tmp_path, tokenizer), load_classifier(tmp_path, 2, 0, tokenizer).base_model):
        torch.testing.assert_close(loaded.eval()(ids).last_hidden_state, right)
