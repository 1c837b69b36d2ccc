"""Fine-tuning as a GPU does it, on a CPU: texts in rows of their own, and memory that runs out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from eval.classification.classifier import HeadClassifier
from eval.classification.encoders import TOKENS_PER_CHUNK, PaddedEncoder, lay_out, make_encoder, padded_inputs
from eval.classification.example_tokens import Encoded
from eval.classification.heads import build_head
from eval.classification.prediction import features, predict
from eval.classification.segments import Segmented
from ffn_variants import build_model
from scores.head_descriptions import get_head, parse_head

CPU = torch.device("cpu")
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def examples(count: int, seed: int = 0, with_types: bool = False) -> Encoded:
    rng = np.random.default_rng(seed)
    texts = [rng.integers(3, 50, rng.integers(1, 12)).tolist() for _ in range(count)]
    types = [[place % 2 for place in range(len(text))] for text in texts] if with_types else ()
    return Encoded.from_lists(texts, rng.integers(0, 2, count), token_type_ids=types)


def segmented(count: int, seed: int = 0) -> Segmented:
    counts = np.random.default_rng(seed).integers(1, 4, count)
    pieces, whole = examples(int(counts.sum()), seed), examples(count, seed)
    spans = np.zeros((len(pieces), 2), dtype=np.int64)
    return Segmented(pieces, counts, whole.labels, whole.truncated, whole.idx, spans)


def classifier_of(family: str, head: str = "linear") -> HeadClassifier:
    torch.manual_seed(0)
    names = {"gpt_neo": ("num_layers", "num_heads"), "t5": ("num_layers", "num_heads")}
    layers, heads = names.get(family, ("num_hidden_layers", "num_attention_heads"))
    sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, layers: 2, heads: 2}
    encoder = make_encoder(build_model(family, "gelu", **sizes, **IDS))
    if not isinstance(encoder, PaddedEncoder):
        encoder.in_one_row = False  # as off the CPU
    return HeadClassifier(encoder, build_head(parse_head(head), 16, 2), get_head(head).reads)


def test_rows_are_padded_by_hand():
    data = Encoded.from_lists([[5, 6, 7], [8]], [0, 1])
    layout = lay_out(data, 9, CPU)
    assert layout.input_ids.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert layout.position_ids.tolist() == [[0, 1, 2], [0, 0, 0]]
    assert layout.starts.tolist() == [0, 3, 3, 4, 6]
    states = torch.arange(6.0)[:, None]
    assert layout.of_texts(states)[..., 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert layout.at(states, torch.tensor([2, 0]))[:, 0].tolist() == [2, 3]
    row = lay_out(data, 9, CPU, in_one_row=True)
    assert (row.input_ids.tolist(), row.position_ids.tolist()) == ([[5, 6, 7, 8]], [[0, 1, 2, 0]])
    assert row.starts.tolist() == [0, 3, 4]
    assert row.at(states, torch.tensor([2, 0]))[:, 0].tolist() == [2, 3]


@contextmanager
def room_for(classifier: HeadClassifier, rows: int, tried: list[int]) -> Iterator[None]:
    """A device on which more than so many vectors do not fit."""

    def refuse(module: torch.nn.Module, args: tuple[Tensor, ...]) -> None:
        tried.append(len(args[0]))
        if tried[-1] > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    handle = classifier.dropout.register_forward_pre_hook(refuse)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("head", ["linear", "space", "swipe", "segment-attention"])
def test_predictions_do_not_depend_on_what_fits(head):
    classifier = classifier_of("roberta", head)
    data = segmented(21) if get_head(head).reads == "segments" else examples(21)
    expected, tried = predict(classifier, data, 1), list[int]()
    with room_for(classifier, 3, tried), pytest.warns(UserWarning, match="memory ran out with 16 at a time"):
        found = predict(classifier, data, 16)
    assert tried == [16, 8, 4, *[2] * 10, 1]  # the size that fits is kept
    np.testing.assert_allclose(found.logits, expected.logits, rtol=0, atol=1e-5)
    assert (found.segment_scores is None) == (expected.segment_scores is None)
    for own, other in zip(found.segment_scores or (), expected.segment_scores or (), strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("head", ["linear", "space", "swipe"])
def test_kept_features_are_those_of_single_examples(head):
    classifier = classifier_of("gpt_neo", head)
    classifier.is_frozen = True
    classifier.encoder.requires_grad_(False).eval()
    data = segmented(9) if get_head(head).reads == "segments" else examples(9)
    kept = features(classifier, data, weights=f"test {head}")
    for number in range(9):
        with torch.no_grad():
            vectors, mask = classifier.embed(data.take([number]))
        own = vectors if mask is None else vectors[mask]
        torch.testing.assert_close(kept.take([number]).vectors, own, rtol=0, atol=1e-5)


def test_types_reach_a_model_that_has_a_use_for_them():
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 16}
    model, data = BertModel(BertConfig(vocab_size=50, **sizes)), examples(6, with_types=True)
    inputs = padded_inputs(model, data)
    assert set(inputs) == {"input_ids", "attention_mask", "token_type_ids"}
    assert inputs["token_type_ids"][0, : data.lengths[0]].tolist() == [n % 2 for n in range(data.lengths[0])]


def test_a_long_document_is_encoded_in_chunks(monkeypatch):
    """So that the memory of training on it is bounded."""
    classifier, sizes = classifier_of("roberta", "swipe"), list[int]()
    encode = classifier._pooled
    monkeypatch.setattr(classifier, "_pooled", lambda batch: sizes.append(len(batch.tokens)) or encode(batch))
    data, one = Encoded.from_lists([[5] * 30] * 300, [0] * 300), np.zeros(1, dtype=np.int64)
    classifier(Segmented(data, one + 300, one, one > 0, one, np.zeros((300, 2), dtype=np.int64)))
    assert len(sizes) == 2
    assert max(sizes) <= TOKENS_PER_CHUNK
