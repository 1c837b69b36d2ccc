"""What is done once under autocast on a GPU is not done on a CPU, and rounds no other way."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from ffn_variants import build_model
from ffn_variants.models.faster_layers import biased_attention, cast_inputs_once, product_dtype

SIZES = {"hidden_size": 16, "intermediate_size": 8, "num_attention_heads": 2, "vocab_size": 50}


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


def test_a_bias_and_a_mask_in_bfloat16_are_their_sum_in_float32_once_that_is_cast():
    """As long as the mask is 0 or the lowest number, which a bias does not move."""
    torch.manual_seed(0)
    bias = torch.randn(1, 4, 32, 32) * 20
    mask = torch.where(torch.rand(5, 1, 32, 32) < 0.5, 0.0, torch.finfo(torch.bfloat16).min)
    early = bias.bfloat16() + mask.bfloat16()
    assert torch.equal(early, (bias + mask).bfloat16())
    assert early.isfinite().all()


@pytest.mark.parametrize("family", ["roberta", "t5", "llama"])
def test_a_cpu_casts_for_each_projection(family):
    torch.manual_seed(0)
    model = build_model(family, "gelu", num_hidden_layers=1, **SIZES).eval()
    ids = torch.randint(4, 50, (2, 9))
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids} if family == "t5" else {})
    with torch.autocast("cpu", torch.bfloat16):
        plain = model(**inputs).logits
        cast_inputs_once(model)
        assert torch.equal(model(**inputs).logits, plain)


def test_the_dtype_of_products_is_that_of_autocast():
    model = build_model("gpt_neo", "gelu", num_hidden_layers=1, **SIZES)
    assert product_dtype(model, torch.device("cpu")) == torch.float32
    assert product_dtype(model.half(), torch.device("meta")) == torch.float16
    with torch.autocast("cpu", torch.bfloat16):
        assert product_dtype(model, torch.device("cpu")) == torch.bfloat16
