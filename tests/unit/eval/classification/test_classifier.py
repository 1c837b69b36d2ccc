"""Classification without padding, against transformers' own padded forward and backward pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import (
    AutoModelForSequenceClassification,
    GPTNeoConfig,
    GPTNeoForSequenceClassification,
    PreTrainedModel,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from eval.classification.classifier import HeadClassifier, PaddedClassifier, StockHead, make_classifier
from eval.classification.encoders import PackedEncoder
from eval.classification.example_tokens import Encoded
from ffn_variants import FFN_VARIANTS, build_model
from tests.cases import diagonal_is_fast

PACKABLE = ("gpt_neo", "roberta")
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
# Of activations, which see one number at a time, the usual one.
BLOCKS = ["gelu", *(name for name, spec in FFN_VARIANTS.items() if spec.kind == "block")]
SIZES = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, **IDS}


def build(family: str, ffn: str = "gelu", layers: int = 2, dropout: float = 0.0) -> PreTrainedModel:
    """A classifier with weights large enough for attention to matter."""
    torch.manual_seed(0)
    sizes: dict = {"num_hidden_layers": layers, "num_attention_heads": 2, "max_position_embeddings": 91}
    if family == "roberta":
        sizes |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    else:
        sizes |= {"window_size": 6}
    config = build_model(family, ffn, initializer_range=0.3, **SIZES, **sizes).config
    config.num_labels = 3
    return AutoModelForSequenceClassification.from_config(config)


def examples(lengths: list[int], seed: int = 0) -> Encoded:
    rng = np.random.default_rng(seed)
    ids = [[1, *rng.integers(3, 50, length - 2), 2] for length in lengths]
    return Encoded.from_lists(ids, rng.integers(0, 3, len(lengths)))


def padded_logits(model: PreTrainedModel, data: Encoded, length: int = 90) -> torch.Tensor:
    """What transformers makes of examples padded to a fixed length."""
    ids, mask, start = torch.zeros(len(data), length, dtype=torch.long), torch.zeros(len(data), length), 0
    for row, size in enumerate(data.lengths):
        ids[row, :size] = torch.tensor(data.tokens[start : start + size])
        mask[row, :size] = 1
        start += size
    return model(input_ids=ids, attention_mask=mask).logits


def gradients(model: PreTrainedModel, logits: torch.Tensor, labels: np.ndarray) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    F.cross_entropy(logits, torch.from_numpy(labels)).backward()
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad.clone()
        for name, p in model.named_parameters()
    }


@pytest.mark.parametrize("in_one_row", [True, False])
@pytest.mark.parametrize(
    ("family", "layers"), [("gpt_neo", 1), ("gpt_neo", 3), ("roberta", 1), ("roberta", 3)]
)
def test_logits_and_gradients_are_those_of_a_padded_batch(family, layers, in_one_row, error):
    data = examples([4, 70, 9, 4, 25, 66, 2, 31, 13, 80])
    stock, model = build(family, layers=layers).eval(), build(family, layers=layers)
    wanted = padded_logits(stock, data)
    wanted_gradients = gradients(stock, wanted, data.labels)
    logits = HeadClassifier(PackedEncoder(model, in_one_row), StockHead(model)).eval()(data).logits
    assert logits.detach().abs().max() > 0.05
    assert error(logits.detach(), wanted.detach()) < 1e-5
    for name, gradient in gradients(model, logits, data.labels).items():
        assert error(gradient, wanted_gradients[name]) < 2e-5, name


@pytest.mark.parametrize(("family", "ffn"), diagonal_is_fast(PACKABLE, BLOCKS))
@pytest.mark.ci
def test_every_variant_gives_what_the_padded_batch_gives(family, ffn, error):
    data = examples([5, 40, 12, 3])
    wanted = padded_logits(build(family, ffn).eval(), data).detach()
    classifier = make_classifier(build(family, ffn))
    assert isinstance(classifier, HeadClassifier)
    assert error(classifier.eval()(data).logits.detach(), wanted) < 1e-5


@pytest.mark.parametrize("family", PACKABLE)
def test_a_text_that_ends_in_the_padding_token_is_read_to_its_end(family):
    ids = [[1, 7, 8, 0], [1, 7, 8, 9, 10, 11, 0]]
    classifier = make_classifier(build(family)).eval()
    both = classifier(Encoded.from_lists(ids, [0, 0])).logits
    without = classifier(Encoded.from_lists([row[:-1] for row in ids], [0, 0])).logits
    assert (both - without).abs().min() > 1e-4
    alone = classifier(Encoded.from_lists(ids[:1], [0])).logits
    torch.testing.assert_close(both[:1], alone, atol=1e-5, rtol=1e-5)


def test_stock_models_are_computed_as_they_are(error):
    sizes, data = {**SIZES, "num_labels": 3}, examples([4, 30, 9])
    layers = {"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]}
    stock_gpt_neo = GPTNeoForSequenceClassification(GPTNeoConfig(**sizes, **layers))
    layers = {"num_hidden_layers": 2, "num_attention_heads": 2}
    stock_roberta = RobertaForSequenceClassification(RobertaConfig(**sizes, **layers))
    for model, kind in ((stock_gpt_neo, PaddedClassifier), (stock_roberta, HeadClassifier)):
        wanted = padded_logits(model.eval(), data).detach()
        classifier = make_classifier(model)
        assert type(classifier) is kind
        assert error(classifier(data).logits.detach(), wanted) < 1e-5


def test_dropout_has_the_mean_and_spread_of_transformers_own():
    same = examples([9]).take([0] * 2000)
    stock, model = build("roberta", dropout=0.3).train(), build("roberta", dropout=0.3)
    with torch.no_grad():
        torch.manual_seed(1)
        wanted, found = padded_logits(stock, same, 9), make_classifier(model).train()(same).logits
    error = (wanted.var(0) / len(wanted) + found.var(0) / len(found)).sqrt()
    assert ((wanted.mean(0) - found.mean(0)).abs() < 4 * error).all()
    torch.testing.assert_close(found.std(0), wanted.std(0), rtol=0.1, atol=0)


@pytest.mark.parametrize("family", PACKABLE)
def test_bf16_products_give_about_the_same(family):
    data = examples([5, 60, 33])
    classifier = make_classifier(build(family)).eval()
    exact = classifier(data).logits
    with torch.autocast("cpu", torch.bfloat16):
        rounded = classifier(data).logits.float()
    assert 0 < (rounded - exact).abs().max() < 0.1 * exact.abs().max() + 0.02
