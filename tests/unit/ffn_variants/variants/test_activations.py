"""Elementwise variants against their formulas in numpy float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import norm

from ffn_variants import FFN_VARIANTS, build_ffn
from tests.references import gelu_tanh

CHANNELS = 6


# From the papers; p is the per-channel parameter, where there is one.
FORMULAS = {
    "gelu": lambda x, p: gelu_tanh(x),
    "learnable-gelu": lambda x, p: p * gelu_tanh(x),
    "relu": lambda x, p: np.maximum(x, 0),
    "relu2": lambda x, p: np.where(x > 0, x * x, 0),
    "leaky-relu2": lambda x, p: np.where(x > 0, x * x, x * x / 4),
    "prelu": lambda x, p: np.maximum(x, 0) + p * np.minimum(x, 0),
    "silu": lambda x, p: x * expit(x),
    "swish": lambda x, p: x * expit(p * x),
    "snake": lambda x, p: x + np.sin(p * x) ** 2 / p,
    "none": lambda x, p: x,
    "thesis-swish": lambda x, p: p * x**2 * expit(p * x),
}


def build(name, **options):
    spec = FFN_VARIANTS[name]
    return spec.build(CHANNELS, **spec.resolve(options)).double()


def test_every_elementwise_variant_has_a_formula_here():
    # Those with other parameters than one number a channel, and of a whole row, have files of their own.
    elsewhere = {"spline-activation", "xielu", "polyrelu", "polynorm", "rational", "gaussian-topk"}
    expected = {name for name, spec in FFN_VARIANTS.items() if spec.kind == "activation"}
    assert set(FORMULAS) == expected - elsewhere


@pytest.mark.parametrize("name", FORMULAS)
def test_value(name):
    rng = np.random.default_rng(0)
    # Channels last, with batch and token dimensions of other sizes: a parameter applied along the wrong
    # dimension cannot pass.
    x = rng.normal(size=(2, 5, CHANNELS)) * 3
    p = rng.normal(size=CHANNELS)
    module = build(name)
    for parameter in module.parameters():
        parameter.data = torch.from_numpy(p)
    y = module(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(y, FORMULAS[name](x, p), rtol=1e-12, atol=1e-14)


def test_snake_of_frequency_zero_is_the_input():
    x = torch.linspace(-4, 4, 41, dtype=torch.float64)
    snake = build("snake", init=0.0)
    out = snake(x.unsqueeze(1).expand(-1, CHANNELS))
    assert torch.equal(out[:, 0], x)
    out.sum().backward()
    torch.testing.assert_close(snake.frequency.grad, x.square().sum().expand(CHANNELS))


@pytest.mark.parametrize(
    ("name", "options", "formula"),
    [
        ("leaky-relu2", {"slope": 0.0}, lambda x: np.maximum(x, 0) ** 2),
        ("leaky-relu2", {"slope": 0.9}, lambda x: np.where(x > 0, x, 0.9 * x) ** 2),
        ("gelu", {"approximate": "none"}, lambda x: x * norm.cdf(x)),
    ],
)
def test_the_formula_has_options(name, options, formula):
    x = np.linspace(-4, 4, 41)
    y = build(name, **options)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(y, formula(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "initial"),
    [("learnable-gelu", 1.0), ("prelu", 0.25), ("swish", 1.0), ("snake", 1.0), ("thesis-swish", 1.0)],
)
def test_learnable_ones_have_one_parameter_per_channel(name, initial):
    (parameter,) = build(name).parameters()
    assert parameter.shape == (CHANNELS,)
    assert (parameter == initial).all()
    (parameter,) = build(name, init=0.5).parameters()
    assert (parameter == 0.5).all()


@pytest.mark.parametrize("name", ["gelu", "swish"])
def test_ffn_is_linear_activation_linear(name):
    torch.manual_seed(0)
    ffn = build_ffn(name, 4, CHANNELS).double()
    weights = {key: value.numpy() for key, value in ffn.state_dict().items()}
    x = np.random.default_rng(1).normal(size=(3, 4))
    p = next((value for key, value in weights.items() if key.startswith("act.")), None)
    hidden = FORMULAS[name](x @ weights["c_fc.weight"].T + weights["c_fc.bias"], p)
    expected = hidden @ weights["c_proj.weight"].T + weights["c_proj.bias"]
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), expected, rtol=1e-10, atol=1e-12)
