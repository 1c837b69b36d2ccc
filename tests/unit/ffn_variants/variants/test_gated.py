"""Gated networks against their formula in numpy float64 and against transformers' T5 1.1 layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit
from transformers import GptOssConfig, T5Config
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts
from transformers.models.t5.modeling_t5 import T5DenseGatedActDense

from ffn_variants import FFN_VARIANTS, build_ffn
from ffn_variants.variants.gated import GatedFFN, clamped_swiglu
from tests.references import gelu_tanh

D, F = 5, 7


ACTIVATIONS = {
    "glu": expit,
    "bilinear": lambda x: x,
    "reglu": lambda x: np.maximum(x, 0),
    "relu2-glu": lambda x: np.maximum(x, 0) ** 2,
    "geglu": gelu_tanh,
    "swiglu": lambda x: x * expit(x),
    "clamped-swiglu": lambda x: np.minimum(x, 7) * expit(1.702 * np.minimum(x, 7)),
}


def formula(name, x, ffn):
    """W_2 (act(W x) * V x) with W the upper and V the lower rows of c_fc."""
    first, second = (layer.weight.detach().double().numpy() for layer in (ffn.c_fc, ffn.c_proj))
    value = x @ first[F:].T
    if name == "clamped-swiglu":
        value = np.clip(value, -7, 7) + 1
    return (ACTIVATIONS[name](x @ first[:F].T) * value) @ second.T


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-12), ("float32", 1e-6), ("bfloat16", 1e-2)])
def test_value(name, dtype, limit, error):
    torch.manual_seed(0)
    ffn = build_ffn(name, D, F).to(getattr(torch, dtype))
    x = torch.randn(2, 9, D).to(getattr(torch, dtype))
    assert error(ffn(x), formula(name, x.double().numpy(), ffn)) < limit


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_float32_gradients_are_those_of_float64(name, check_float32_gradients):
    torch.manual_seed(1)
    check_float32_gradients(build_ffn(name, D, F), torch.randn(64, D))


def test_geglu_is_the_layer_of_t5():
    torch.manual_seed(2)
    ffn = build_ffn("geglu", D, F)
    config = T5Config(d_model=D, d_ff=F, feed_forward_proj="gated-gelu", dropout_rate=0)
    reference = T5DenseGatedActDense(config)
    gate, value = ffn.c_fc.weight.detach().chunk(2)
    weights = {"wi_0.weight": gate, "wi_1.weight": value, "wo.weight": ffn.c_proj.weight.detach()}
    reference.load_state_dict(weights)
    x = torch.randn(3, 4, D)
    torch.testing.assert_close(ffn(x), reference(x), atol=1e-6, rtol=1e-6)


def test_every_gated_network_has_a_formula_here():
    gated = {name for name in FFN_VARIANTS if isinstance(build_ffn(name, D, F), GatedFFN)}
    assert gated == ACTIVATIONS.keys()


def test_clamped_swiglu_is_that_of_gpt_oss_beyond_the_clamps_too():
    config = GptOssConfig(hidden_size=D, intermediate_size=F, num_local_experts=1)
    experts, projected = GptOssExperts(config), 10 * torch.randn(50, 2 * F)
    assert (projected.abs() > 7).any()
    in_turns = torch.stack(projected.chunk(2, dim=-1), -1).flatten(-2)
    torch.testing.assert_close(clamped_swiglu(projected), experts._apply_gate(in_turns))
