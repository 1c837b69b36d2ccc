"""Fine-tuning as a GPU does it, on a CPU: examples that lie on the device, and memory that runs out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor

from base.errors import UsageError
from eval.classification.classifier import HeadClassifier
from eval.classification.encoders import PaddedEncoder, lay_out, make_encoder, padded_inputs
from eval.classification.evaluate import METRICS
from eval.classification.finetune import build_optimizer, finetune, update
from eval.classification.heads import build_head
from eval.classification.prediction import features, predict
from eval.classification.tokens import Encoded, Segmented
from eval.finetuning import Finetuning
from ffn_variants import FAMILIES, build_model
from scores.heads.registry import HEADS, get_head, parse_head

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


def there(data: Encoded | Segmented) -> Encoded | Segmented:
    """What a GPU gets."""
    if isinstance(data, Segmented):
        pieces = data.pieces.resident(CPU)  # type: ignore[bad-argument-type]
        return Segmented(pieces, data.counts, data.labels, data.truncated, data.idx, data.spans)
    return data.resident(CPU)


def classifier_of(family: str, head: str = "linear") -> HeadClassifier:
    torch.manual_seed(0)
    names = {"gpt_neo": ("num_layers", "num_heads"), "t5": ("num_layers", "num_heads")}
    layers, heads = names.get(family, ("num_hidden_layers", "num_attention_heads"))
    sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, layers: 2, heads: 2}
    encoder = make_encoder(build_model(family, "gelu", **sizes, **IDS))
    if not isinstance(encoder, PaddedEncoder):
        encoder.in_one_row = False  # as off the CPU
    return HeadClassifier(encoder, build_head(parse_head(head), 16, 2), get_head(head).reads)


@pytest.mark.parametrize("with_types", [False, True])
def test_a_batch_is_laid_out_there_as_it_is_here(with_types):
    data = examples(20, with_types=with_types)
    resident = data.resident(CPU)
    for order in ([3, 0, 7, 7], [19], np.arange(20)):
        # Of a part of a part, as segments are taken.
        part = resident.take(np.arange(20)[::-1]).take(19 - np.asarray(order))
        here, made = lay_out(data.take(order), 0, CPU), lay_out(part, 0, CPU)
        for name in ("input_ids", "position_ids", "starts", "lengths", "mask"):
            assert torch.equal(getattr(here, name), getattr(made, name)), name
            assert getattr(here, name).dtype == getattr(made, name).dtype, name
        assert (here.types is None) == (made.types is None) == (not with_types)
        assert here.types is None or torch.equal(here.types, made.types)
        assert np.array_equal(part.labels, data.labels[order])


def test_rows_are_padded_by_hand():
    data = Encoded.from_lists([[5, 6, 7], [8]], [0, 1])
    layout = lay_out(data.resident(CPU), 9, CPU)
    assert layout.input_ids.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert layout.position_ids.tolist() == [[0, 1, 2], [0, 0, 0]]
    assert layout.starts.tolist() == [0, 3, 3, 4, 6]
    states = torch.arange(6.0)[:, None]
    assert layout.of_texts(states)[..., 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert layout.at(states, torch.tensor([2, 0]))[:, 0].tolist() == [2, 3]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("head", HEADS)
def test_updates_there_are_those_here(family, head):
    if head != "linear" and family != "gpt_neo" and HEADS[head].reads == "example":
        pytest.skip("such heads differ in nothing that lies before them")
    settings = Finetuning(head=head, per_device_train_batch_size=6)
    data = segmented(12) if HEADS[head].reads == "segments" else examples(12)
    states = []
    for source in (data, there(data)):
        classifier = classifier_of(family, head)
        for module in classifier.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        optimizer = build_optimizer(classifier, settings)
        for first in (0, 6):
            update(classifier, source.take(np.arange(first, first + 6)), optimizer, settings)
        states.append((classifier.state_dict(), predict(classifier, source, 5)))
    (weights, found), (weights_there, found_there) = states
    for name, value in weights.items():
        torch.testing.assert_close(weights_there[name], value, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found_there.logits, found.logits, rtol=0, atol=1e-5)
    for own, expected in zip(found_there.segment_scores or (), found.segment_scores or (), strict=True):
        np.testing.assert_allclose(own, expected, rtol=0, atol=1e-5)


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


def test_a_step_that_does_not_fit_says_what_to_lower():
    classifier, settings = classifier_of("roberta"), Finetuning(per_device_train_batch_size=16)
    message = (
        r"memory runs out on the device; a step of 16 examples of up to 128 tokens does not fit: lower --"
    )
    with room_for(classifier, 8, []), pytest.raises(UsageError, match=message):
        finetune(classifier, examples(40), examples(9), METRICS["accuracy"], settings, 0)


@pytest.mark.parametrize("head", ["linear", "space", "swipe"])
def test_kept_features_are_those_of_single_examples(head):
    classifier = classifier_of("gpt_neo", head)
    classifier.is_frozen = True
    classifier.encoder.requires_grad_(False).eval()
    data = segmented(9) if get_head(head).reads == "segments" else examples(9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = features(classifier, data, weights=f"test {head}")
    for number in range(9):
        with torch.no_grad():
            vectors, mask = classifier.embed(data.take([number]))
        own = vectors if mask is None else vectors[mask]
        torch.testing.assert_close(kept.take([number]).vectors, own, rtol=0, atol=1e-5)


def test_types_reach_a_model_that_has_a_use_for_them():
    from transformers import BertConfig, BertModel

    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 16}
    model, data = BertModel(BertConfig(vocab_size=50, **sizes)), examples(6, with_types=True)
    here, made = padded_inputs(model, data), padded_inputs(model, data.resident(CPU))
    assert set(here) == set(made) == {"input_ids", "attention_mask", "token_type_ids"}
    assert all(torch.equal(here[name], made[name]) for name in here)


def test_t5_reads_a_whole_mask_as_its_own():
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, "num_layers": 2, "num_heads": 2}
    model, data = build_model("t5", "gelu", **sizes, **IDS).eval(), examples(7)
    known, whole = PaddedEncoder(model, whole_mask=False), PaddedEncoder(model, whole_mask=True)
    assert (known.whole_mask, whole.whole_mask, PaddedEncoder(model).whole_mask) == (False, True, False)
    (states, mask), (found, same) = known.tokens(data), whole.tokens(data)
    assert torch.equal(mask, same)
    torch.testing.assert_close(found[same], states[mask], rtol=0, atol=1e-6)
