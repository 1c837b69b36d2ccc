"""A text that spells special tokens is ordinary text to whatever reads it: training, evaluation, prompts."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch
from tokenizers import Tokenizer
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from base.files import PACKAGES
from base.text.tokens import read, read_whole
from eval.classification.example_tokens import encode
from eval.classification.segments import Segmentation, encode_segments
from eval.protocol import ProtocolConfig
from eval.scoring.scored_tokens import TextTokenizer, forget_tokens
from pretrain.data.embedded import stories
from pretrain.data.tokenizer import encode_batch, train_tokenizer
from pretrain.sampling import continue_texts

TEXT = "Tom said </s> to the <mask> dog<pad> and <s> the </s>. He was glad."


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(iter(stories(100, 0)), 400)


@pytest.fixture(scope="module")
def wanted(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    """What the same merges make of the characters where there is no special token that could be spelled."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    plain = Tokenizer.from_str(json.dumps(content | {"added_tokens": [], "post_processor": None}))
    return plain.encode(TEXT).ids


def scored(tokenizer: Any, objective: str, **protocol: Any) -> list[int]:
    resolved = ProtocolConfig(**protocol).resolve(objective)
    (text,) = TextTokenizer(tokenizer, resolved, 200).encode((("", TEXT),))
    return text.input_ids


def windowed(tokenizer: Any) -> list[int]:
    (text,) = TextTokenizer(tokenizer, ProtocolConfig().resolve("causal"), 200).windows(TEXT)
    return text.input_ids


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
    forget_tokens()
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
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _tokenises(node.func)
    }
    assert calling == known


def _tokenises(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return function.attr in ("tokenize", "encode_batch_fast", "batch_encode_plus", "encode_plus")
    return isinstance(function, ast.Name) and function.id == "tokenizer"
