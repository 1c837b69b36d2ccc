"""Gated networks against their formula in numpy float64 and against transformers' T5 1.1 layer."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from transformers import GptOssConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts

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


def test_every_gated_network_has_a_formula_here():
    gated = {name for name in FFN_VARIANTS if isinstance(build_ffn(name, D, F), GatedFFN)}
    assert gated == ACTIVATIONS.keys()


def test_clamped_swiglu_is_that_of_gpt_oss_beyond_the_clamps_too():
    config = GptOssConfig(hidden_size=D, intermediate_size=F, num_local_experts=1)
    experts, projected = GptOssExperts(config), 10 * torch.randn(50, 2 * F)
    assert (projected.abs() > 7).any()
    in_turns = torch.stack(projected.chunk(2, dim=-1), -1).flatten(-2)
    torch.testing.assert_close(clamped_swiglu(projected), experts._apply_gate(in_turns))
