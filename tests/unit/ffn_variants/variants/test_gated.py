"""Gated networks against their formula in numpy float64 and against transformers' T5 1.1 layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit
from transformers import GptOssConfig, T5Config
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts
from transformers.models.t5.modeling_t5 import T5DenseGatedActDense

from ffn_variants import FFN_VARIANTS, build_ffn, build_model
from ffn_variants.variants.gated import GatedFFN, clamped_swiglu

D, F = 5, 7


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


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
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-6), ("bfloat16", 1e-2)])
def test_value(name, dtype, tolerance):
    torch.manual_seed(0)
    ffn = build_ffn(name, D, F).to(getattr(torch, dtype))
    x = torch.randn(2, 9, D).to(getattr(torch, dtype))
    expected = formula(name, x.double().numpy(), ffn)
    y = ffn(x).detach().double().numpy()
    np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance * max(1, abs(expected).max()))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_in_float32_are_those_of_float64(name):
    torch.manual_seed(1)
    ffn = build_ffn(name, D, F)
    x = torch.randn(64, D)
    gradients = []
    for dtype in (torch.float64, torch.float32):
        ffn.to(dtype).zero_grad()
        inputs = x.to(dtype).requires_grad_()
        ffn(inputs).square().sum().backward()
        gradients.append([g.grad.double().clone() for g in (inputs, *ffn.parameters())])
    for exact, single in zip(*gradients, strict=True):
        torch.testing.assert_close(single, exact, rtol=5e-6, atol=5e-6 * max(1.0, exact.abs().max().item()))


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


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_three_matrices_and_no_biases(name):
    ffn = build_ffn(name, D, F)
    assert sorted(tuple(p.shape) for p in ffn.parameters()) == [(D, F), (2 * F, D)]
    assert FFN_VARIANTS[name].num_params(512, 1024) == 3 * 512 * 1024
    assert FFN_VARIANTS[name].flops_per_token(512, 1024) == 2 * 3 * 512 * 1024


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
def test_weights_start_with_the_initializer_range_of_the_model(family, name):
    torch.manual_seed(3)
    sizes = {"hidden_size": 128, "intermediate_size": 256, "vocab_size": 50, "initializer_range": 0.03}
    model = build_model(family, name, **sizes)
    weights = [m.weight for m in model.modules() if isinstance(m, torch.nn.Linear) and m.bias is None]
    gated = [w for w in weights if w.shape in ((512, 128), (128, 256))]
    assert len(gated) == 4
    for weight in gated:
        assert abs(weight.std().item() / 0.03 - 1) < 0.03
