"""Faster layers on a CPU: which values dropout drops, and what is done once under autocast on a GPU alone."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from ffn_variants import build_model
from ffn_variants.models.faster_layers import (
    Dropout,
    biased_attention,
    cast_inputs_once,
    dropout,
    product_dtype,
    replace_dropouts,
)
from tests.cases import SMALL

P = 0.1


@pytest.mark.parametrize(("dtype", "p"), [(torch.float32, P), (torch.bfloat16, 0.5)])
def test_values_are_dropped_or_scaled_and_gradients_too(dtype, p):
    torch.manual_seed(0)
    x = torch.randn(37, 11, dtype=dtype).abs().add(0.1).requires_grad_()
    out = dropout(x, p)
    out.backward(torch.ones_like(out))
    kept = out != 0
    scaled = x.detach().double() / (1 - p)
    torch.testing.assert_close(out.double(), torch.where(kept, scaled, 0), rtol=1e-2, atol=0)
    expected = torch.where(kept, 1 / (1 - p), 0.0)
    torch.testing.assert_close(x.grad.float(), expected, rtol=1e-2, atol=0)
    assert out.dtype == x.grad.dtype == dtype


def test_the_share_dropped_is_that_asked_for_at_each_of_four_places():
    """One number decides four values: each place must drop as often, and without regard to its neighbours."""
    torch.manual_seed(1)
    dropped = (dropout(torch.ones(100_000, 4), P) == 0).numpy()
    for place in range(4):
        assert stats.binomtest(int(dropped[:, place].sum()), len(dropped), P).pvalue > 1e-3
    pairs = np.corrcoef(dropped.T)[np.triu_indices(4, 1)]
    assert abs(pairs).max() < 4 / np.sqrt(len(dropped))


def test_torchs_seed_decides_the_draws():
    draws = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        draws.append(dropout(torch.ones(100), P))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_nothing_is_dropped_in_evaluation_or_at_zero():
    x = torch.ones(1000)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(0.5).eval()(x), x)


def test_every_dropout_of_a_model_is_exchanged_and_no_weight():
    model = build_model("roberta", "gelu", **SMALL).eval()
    names, ids = list(model.state_dict()), torch.arange(4)[None]
    before = model(input_ids=ids).logits
    replace_dropouts(model)
    kinds = {type(module) for module in model.modules() if isinstance(module, nn.Dropout)}
    assert kinds == {Dropout}
    assert list(model.state_dict()) == names
    assert torch.equal(model(input_ids=ids).logits, before)  # in evaluation still


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_with_a_bias_is_sdpa_on_a_cpu(dtype):
    torch.manual_seed(0)
    heads = [torch.randn(3, 2, 8, 4, dtype=dtype) for _ in range(3)]
    mask = torch.randn(3, 1, 8, 8).to(dtype)
    arguments = {"position_bias": torch.randn(1, 2, 8, 8), "scaling": 1.0}
    layer = SimpleNamespace(is_causal=False)
    if dtype == torch.bfloat16:
        arguments["position_bias"] = arguments["position_bias"].to(dtype)
    ours, _ = biased_attention(layer, *heads, mask, **arguments)
    assert torch.equal(ours, sdpa_attention_forward(layer, *heads, mask, **arguments)[0])


@pytest.mark.parametrize("family", ["roberta", "t5"])
def test_a_cpu_casts_for_each_projection(family):
    torch.manual_seed(0)
    model = build_model(family, "gelu", **SMALL).eval()
    ids = torch.randint(4, 50, (2, 9))
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids} if family == "t5" else {})
    with torch.autocast("cpu", torch.bfloat16):
        plain = model(**inputs).logits
        cast_inputs_once(model)
        assert torch.equal(model(**inputs).logits, plain)


def test_the_dtype_of_products_is_that_of_autocast():
    model = build_model("gpt_neo", "gelu", **SMALL)
    assert product_dtype(model, torch.device("cpu")) == torch.float32
    assert product_dtype(model.half(), torch.device("meta")) == torch.float16
    with torch.autocast("cpu", torch.bfloat16):
        assert product_dtype(model, torch.device("cpu")) == torch.bfloat16
