"""Vectors of texts and of tokens without padding, against transformers' own padded forward pass."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest
import torch
from transformers import AutoModel, BertConfig, GPT2Config, PreTrainedModel, T5Config

from eval.classification.classifier import Features, HeadClassifier, stack
from eval.classification.encoders import PackedEncoder, PaddedEncoder, make_encoder
from eval.classification.example_tokens import Encoded
from eval.classification.finetune import trained_state
from eval.classification.heads import build_head
from eval.classification.prediction import features
from eval.classification.segments import Segmented
from ffn_variants import build_model
from scores.head_descriptions import HEADS, parse_head

IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
FAMILIES = ("gpt_neo", "roberta")


def backbone(family: str) -> PreTrainedModel:
    """A model without head, with weights large enough for attention to matter."""
    torch.manual_seed(0)
    sizes: dict = {"num_layers": 2, "num_heads": 2, "window_size": 6, "max_position_embeddings": 90}
    if family == "roberta":
        sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 91}
        sizes |= {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
    shared = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, **IDS}
    config = build_model(family, "gelu", initializer_range=0.3, **shared, **sizes).config
    model = AutoModel.from_config(config)
    model.pooler = None
    return model.eval()


def examples(lengths: list[int]) -> Encoded:
    rng = np.random.default_rng(0)
    ids = [[1, *rng.integers(3, 50, length - 2), 2] for length in lengths]
    return Encoded.from_lists(ids, rng.integers(0, 3, len(lengths)))


def one_by_one(model: PreTrainedModel, data: Encoded) -> list[torch.Tensor]:
    """The last hidden states of each text by itself, which needs neither padding nor a mask."""
    ends = np.cumsum(data.lengths)
    texts = [data.tokens[end - length : end] for end, length in zip(ends, data.lengths, strict=True)]
    with torch.no_grad():
        return [model(input_ids=torch.tensor(ids[None].astype(int))).last_hidden_state[0] for ids in texts]


CHOOSE = {"first": lambda x: x[0], "last": lambda x: x[-1], "mean": lambda x: x.mean(0)}


@torch.no_grad()
def check_pooled(encoder, data: Encoded, wanted: list[torch.Tensor], own: str, error) -> None:
    """Each pooling is that of the text's own states; ``own`` is the one that is taken unless it is said."""
    for pooling, choose in CHOOSE.items():
        expected = torch.stack([choose(x) for x in wanted])
        assert error(encoder.pooled(data, pooling), expected) < 1e-5, pooling
    assert torch.equal(encoder.pooled(data), encoder.pooled(data, own))


@pytest.mark.parametrize("in_one_row", [True, False])
@pytest.mark.parametrize(("family", "own"), [("gpt_neo", "last"), ("roberta", "first")])
def test_packed_vectors_are_those_of_each_text_by_itself(family, own, in_one_row, error):
    data, model = examples([4, 70, 9, 25, 2, 80]), backbone(family)
    wanted, encoder = one_by_one(model, data), PackedEncoder(model, in_one_row).eval()
    check_pooled(encoder, data, wanted, own, error)
    with torch.no_grad():
        hidden, mask = encoder.tokens(data)
    assert mask.sum(1).tolist() == data.lengths.tolist()
    for row, kept, expected in zip(hidden, mask, wanted, strict=True):
        assert error(row[kept], expected) < 1e-5


SMALL_BERT = BertConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)


@pytest.mark.parametrize(
    ("config", "own"),
    [
        (SMALL_BERT, "first"),
        (GPT2Config(n_embd=16, n_layer=2, n_head=2), "last"),
        (T5Config(d_model=16, num_layers=2, num_heads=2, d_ff=32, d_kv=8), "mean"),
    ],
)
def test_other_backbones_are_read_as_they_were_trained(config, own, error):
    config.vocab_size, config.pad_token_id = 50, 0
    torch.manual_seed(0)
    data, encoder = examples([4, 30, 9]), make_encoder(AutoModel.from_config(config).eval())
    assert isinstance(encoder, PaddedEncoder)
    check_pooled(encoder.eval(), data, one_by_one(encoder.body, data), own, error)


def segmented(data: Encoded, counts: list[int]) -> Segmented:
    """The texts of ``data`` as segments of fewer examples."""
    size, spans = len(counts), np.zeros((len(data), 2), np.int64)
    labels = np.arange(size) % 3
    names = np.array([str(n) for n in range(size)], dtype=object)
    return Segmented(data, np.array(counts), labels, np.zeros(size, bool), names, spans)


@pytest.mark.parametrize(("family", "name"), list(zip(cycle(FAMILIES), HEADS, strict=False)))
def test_a_head_on_kept_features_is_the_head_on_its_frozen_backbone(family, name):
    spec, data = HEADS[name], examples([4, 70, 9, 25, 3, 80])
    batch = segmented(data, [1, 3, 2]) if spec.reads == "segments" else data
    torch.manual_seed(1)
    head = build_head(parse_head(name), 16, 3)
    classifier = HeadClassifier(make_encoder(backbone(family)), head, spec.reads, "mean", is_frozen=True)
    kept = features(classifier, batch, weights=f"{family} {name}")
    assert isinstance(kept, Features)
    classifier.train()
    assert not classifier.encoder.training
    assert not any(key.startswith("encoder.body.") and "weight" in key for key in trained_state(classifier))
    order = [2, 0, 1]
    whole = classifier.eval()(batch.take(order)).logits
    torch.testing.assert_close(classifier(kept.take(order)).logits, whole, atol=1e-5, rtol=1e-4)
    whole.sum().backward()
    assert all(parameter.grad is None for parameter in classifier.encoder.parameters())
    assert any(parameter.grad is not None for parameter in classifier.head.parameters())


def test_ragged_vectors_are_stacked_with_a_mask():
    vectors = torch.arange(1.0, 13).view(6, 2)
    stacked, mask = stack(vectors, np.array([1, 3, 2]))
    assert mask.tolist() == [[True, False, False], [True, True, True], [True, True, False]]
    assert torch.equal(stacked[mask], vectors)
    assert (stacked[~mask] == 0).all()


def test_kept_features_are_those_of_the_device_that_is_asked_for():
    for device in ("cpu", "meta"):
        encoder = make_encoder(backbone("roberta").to(device))
        classifier = HeadClassifier(encoder, build_head(parse_head("linear"), 16, 3), is_frozen=True)
        kept = features(classifier, examples([4, 9]), weights="on some device")
        assert kept.vectors.device.type == device


def test_dropout_of_a_head_has_its_mean_and_variance_on_kept_features_too():
    data, p = examples([9]), 0.3
    torch.manual_seed(1)
    head = build_head(parse_head("linear"), 16, 3)
    encoder = make_encoder(backbone("roberta"))
    whole = HeadClassifier(encoder, head, pooling="mean", is_frozen=True, dropout=p)
    kept = features(whole, data, weights="dropout of a head")
    linear, (vector,) = head.layers, kept.vectors
    mean = (linear.weight @ vector + linear.bias).detach()
    variance = (p / (1 - p) * (linear.weight**2 @ vector**2)).detach()
    many = np.zeros(4000, int)
    with torch.no_grad():
        for classifier, batch in ((whole, data), (whole, kept)):
            torch.testing.assert_close(classifier.eval()(batch).logits[0], mean, atol=1e-5, rtol=1e-4)
            logits = classifier.train()(batch.take(many)).logits
            assert ((logits.mean(0) - mean).abs() < 4 * (variance / len(many)).sqrt()).all()
            torch.testing.assert_close(logits.var(0), variance, rtol=0.1, atol=0)
