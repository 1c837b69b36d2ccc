"""FastKAN layers against their formula in numpy, LayerNorm included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from ffn_variants import build_ffn
from ffn_variants.variants.rbf_kan import GaussianBasis, RBFKANLinear

NAMES = ("layernorm.weight", "layernorm.bias", "spline_weight", "base_linear.weight", "base_linear.bias")


def formula(x, gamma, beta, splines, weight, bias, grad):
    """Compute a layer, and the gradients of x and of every parameter by the chain rule, in numpy."""
    deviation = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    z = (x - x.mean(-1, keepdims=True)) / deviation
    n = gamma * z + beta
    grid = splines.shape[1] // x.shape[1]
    centres = np.linspace(-2, 2, grid)
    step = 4 / (grid - 1)
    v = splines.reshape(len(splines), x.shape[1], grid)
    bumps = np.exp(-(((n[..., None] - centres) / step) ** 2))
    y = np.einsum("nig,oig->no", bumps, v) + (x * expit(x)) @ weight.T + bias
    slopes = bumps * -2 * (n[..., None] - centres) / step**2
    of_n = np.einsum("no,oig,nig->ni", grad, v, slopes)
    of_z = of_n * gamma
    of_x = (of_z - of_z.mean(-1, keepdims=True) - z * (of_z * z).mean(-1, keepdims=True)) / deviation
    of_x += (grad @ weight) * expit(x) * (1 + x * expit(-x))
    of_splines = np.einsum("no,nig->oig", grad, bumps).reshape(splines.shape)
    parameters = [(of_n * z).sum(0), of_n.sum(0), of_splines, grad.T @ (x * expit(x)), grad.sum(0)]
    return y, [of_x, *parameters]


def parameters(layer):
    named = dict(layer.named_parameters())
    assert set(named) == set(NAMES)
    return [named[name] for name in NAMES]


def check(layer, x, grad, error, output_limit, gradient_limit):
    """Compare a layer with its formula in float64, on the numbers that the layer really has."""
    x = x.requires_grad_()
    y = layer(x)
    gradients = torch.autograd.grad(y, [x, *parameters(layer)], grad)
    expected, expected_gradients = formula(
        *(t.detach().double().numpy() for t in (x, *parameters(layer), grad))
    )
    assert error(y, expected) < output_limit
    for name, found, wanted in zip(("x", *NAMES), gradients, expected_gradients, strict=True):
        assert error(found, wanted) < gradient_limit, name


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("grid", [2, 8, 20])
def test_outputs_and_gradients_are_those_of_the_formula_in_float32(grid, scale, error):
    torch.manual_seed(0)
    layer = RBFKANLinear(16, 12, grid)
    check(layer, scale * torch.randn(200, 16), torch.randn(200, 12), error, 1e-6, 5e-6)


def test_compiled_outputs_and_gradients_are_those_of_the_formula_too(compiled_kernels, error):
    torch.manual_seed(1)
    layer = RBFKANLinear(16, 12, 4)
    check(layer, torch.randn(200, 16), torch.randn(200, 12), error, 1e-6, 5e-6)


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.tuples(st.integers(2, 5), st.integers(1, 4)),
    grid=st.integers(2, 20),
    scale=st.sampled_from([0.1, 1.0, 100.0]),
    seed=st.integers(0, 2**16),
)
def test_any_layer_is_its_formula_in_float64(sizes, grid, scale, seed, error):
    torch.manual_seed(seed)
    layer = RBFKANLinear(*sizes, grid).double()
    for parameter in parameters(layer):
        parameter.data.normal_()
    x = scale * torch.randn(6, sizes[0], dtype=torch.float64)
    check(layer, x, torch.randn(6, sizes[1], dtype=torch.float64), error, 1e-12, 1e-10)


def test_bumps_are_one_at_their_centres_and_zero_far_out():
    x = torch.linspace(-2, 2, 8).unsqueeze(1)
    bumps = GaussianBasis(8)(x)[..., 0]
    torch.testing.assert_close(bumps.diagonal(), torch.ones(8))
    neighbours = torch.full((7,), float(np.exp(-1)))
    torch.testing.assert_close(bumps.diagonal(1), neighbours, atol=1e-6, rtol=0)
    far = torch.tensor([[1e30], [-1e30], [torch.inf], [-torch.inf]])
    assert not GaussianBasis(8)(far).any()


def test_gradients_agree_with_finite_differences():
    torch.manual_seed(2)
    layer = RBFKANLinear(3, 2, 4).double()
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: layer(x), (x, *layer.parameters()))


@pytest.mark.parametrize("way", ["cast", "autocast"])
def test_bf16_is_within_a_hundredth(way, error):
    torch.manual_seed(3)
    layer = RBFKANLinear(64, 32).bfloat16()
    x, grad = torch.randn(256, 64).bfloat16(), torch.randn(256, 32).bfloat16()
    expected = formula(*(t.detach().double().numpy() for t in (x, *parameters(layer), grad)))
    if way == "autocast":
        layer, x = layer.float(), x.float()
    x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=way == "autocast"):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    assert error(y, expected[0]) < 1e-2
    found = torch.autograd.grad(y, [x, *parameters(layer)], grad)
    for name, gradient, wanted in zip(("x", *NAMES), found, expected[1], strict=True):
        assert error(gradient, wanted) < 1e-2, name


@pytest.mark.parametrize(("width", "grid"), [(64, 8), (512, 8), (256, 2), (256, 20)])
def test_initial_curves_add_up_to_the_chosen_size(width, grid):
    torch.manual_seed(4)
    layer = RBFKANLinear(width, 400, grid, init_scale=0.3)
    with torch.no_grad():
        curves = layer(x := torch.randn(400, width)) - layer.base_linear(torch.nn.functional.silu(x))
    assert abs(curves.std().item() / 0.3 - 1) < 0.05


def test_ffn_is_two_layers():
    torch.manual_seed(5)
    ffn = build_ffn("rbf-kan", 4, 3, grid_size=3).double()
    x = y = np.random.default_rng(1).normal(size=(6, 4))
    for layer in ffn.layers:
        numbers = [p.detach().numpy() for p in parameters(layer)]
        y, _ = formula(y, *numbers, np.zeros((6, len(numbers[-1]))))
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), y, rtol=1e-9)
