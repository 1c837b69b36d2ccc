"""KAN layers against scipy's B-splines, and against what efficient-kan saves and draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.interpolate import BSpline
from scipy.special import expit
from torch import nn

from ffn_variants import build_ffn
from ffn_variants.kan import KANFFN, KANLinear, b_spline_bases, is_uniform, uniform_b_spline_bases

SHAPES = [(5, 3), (3, 3), (4, 2), (6, 1)]


def scipy_bases(x, knots, order):
    """Evaluate (N, I, G + K) bases one by one; zero outside the knots."""
    count = knots.shape[1] - order - 1
    out = np.zeros((*x.shape, count))
    for i in range(x.shape[1]):
        for c in range(count):
            element = BSpline.basis_element(knots[i, c : c + order + 2], extrapolate=False)
            out[:, i, c] = np.nan_to_num(element(x[:, i]))
    return out


def scipy_layer(x, state, order):
    """Compute the layer by its formula, edge by edge."""
    bases = scipy_bases(x, state["grid"], order)
    splines = state["spline_weight"] * state["spline_scaler"][..., None]
    return (x * expit(x)) @ state["base_weight"].T + np.einsum("nic,oic->no", bases, splines)


def efficient_kan_state(rng, inputs, outputs, grid, order, uniform):
    """Write a state dict as efficient-kan saves one; knots uniform, or uneven as after its update_grid."""
    knots = (np.arange(-order, grid + order + 1) * 2 / grid - 1)[None].repeat(inputs, 0)
    if not uniform:
        knots = np.sort(rng.uniform(-3, 3, size=knots.shape))
    return {
        "base_weight": rng.normal(size=(outputs, inputs)),
        "spline_weight": rng.normal(size=(outputs, inputs, grid + order)),
        "spline_scaler": rng.normal(size=(outputs, inputs)),
        "grid": knots,
    }


@pytest.mark.parametrize(("grid", "order"), SHAPES)
def test_bases_are_b_splines(grid, order):
    rng = np.random.default_rng(0)
    knots = np.sort(rng.uniform(-2, 2, size=(3, grid + 2 * order + 1)))
    x = rng.uniform(-3, 3, size=(50, 3))
    bases = b_spline_bases(torch.from_numpy(x), torch.from_numpy(knots), order).numpy()
    assert bases.shape == (50, 3, grid + order)
    np.testing.assert_allclose(bases, scipy_bases(x, knots, order), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("grid", [1, 3, 5, 8])
def test_uniform_bases_are_b_splines_with_their_slopes(grid, order):
    rng = np.random.default_rng(0)
    knots = (np.arange(-order, grid + order + 1) * 2 / grid - 1)[None].repeat(3, 0)
    assert is_uniform(torch.from_numpy(knots))
    # On both sides of every knot, between knots, and far outside.
    x = np.concatenate(
        [rng.uniform(-4, 4, size=(60, 3)), knots.T - 1e-6, knots.T + 1e-6, [[1e30, -1e30, 50.0]]]
    )
    inputs = torch.from_numpy(x).requires_grad_()
    bases = uniform_b_spline_bases(inputs, torch.from_numpy(knots), order)
    np.testing.assert_allclose(bases.detach().numpy(), scipy_bases(x, knots, order), rtol=1e-9, atol=1e-12)
    weights = rng.normal(size=bases.shape[-1])
    (bases @ torch.from_numpy(weights)).sum().backward()
    slopes = sum(
        w
        * np.nan_to_num(BSpline.basis_element(knots[0, c : c + order + 2], extrapolate=False).derivative()(x))
        for c, w in enumerate(weights)
    )
    np.testing.assert_allclose(inputs.grad.numpy(), slopes, rtol=1e-7, atol=1e-9)


def test_infinite_inputs_give_no_nan_and_uneven_knots_are_noticed():
    layer = KANLinear(2, 2)
    far = torch.tensor([[math.inf, -math.inf]])
    assert torch.equal(uniform_b_spline_bases(far, layer.grid, 3), torch.zeros(1, 2, 8))
    x = torch.linspace(-1.5, 1.5, 40).reshape(20, 2)
    even = layer(x)
    with torch.no_grad():
        layer.grid[:, 5] += 0.1
    assert not is_uniform(layer.grid)
    bases = torch.from_numpy(scipy_bases(x.double().numpy(), layer.grid.double().numpy(), 3)).float()
    spline = (layer.spline_weight * layer.spline_scaler[..., None]).flatten(1)
    expected = nn.functional.silu(x) @ layer.base_weight.T + bases.flatten(1) @ spline.T
    torch.testing.assert_close(layer(x), expected)
    assert not torch.allclose(even, expected)


@pytest.mark.parametrize(("grid", "order"), SHAPES)
def test_bases_sum_to_one_on_the_grid_and_vanish_far_away(grid, order):
    layer = KANLinear(2, 3, grid, order).double()
    inside = torch.linspace(-0.999, 0.999, 50, dtype=torch.float64)[:, None].expand(-1, 2)
    total = b_spline_bases(inside, layer.grid, order).sum(-1)
    torch.testing.assert_close(total, torch.ones_like(total), atol=1e-5, rtol=0)
    assert not b_spline_bases(torch.tensor([[-9.0, 9.0]]).double(), layer.grid, order).any()


@pytest.mark.parametrize(("grid", "order"), SHAPES)
@pytest.mark.parametrize("uniform", [True, False])
def test_loads_an_efficient_kan_state_dict_and_computes_its_formula(grid, order, uniform):
    rng = np.random.default_rng(1)
    state = efficient_kan_state(rng, 4, 6, grid, order, uniform)
    layer = KANLinear(4, 6, grid, order).double()
    layer.load_state_dict({key: torch.from_numpy(value) for key, value in state.items()}, strict=True)
    x = rng.normal(size=(2, 9, 4)) * 1.5
    expected = scipy_layer(x.reshape(-1, 4), state, order).reshape(2, 9, 6)
    np.testing.assert_allclose(layer(torch.from_numpy(x)).detach().numpy(), expected, rtol=1e-8, atol=1e-10)


def test_float32_is_close_to_float64():
    rng = np.random.default_rng(2)
    state = efficient_kan_state(rng, 8, 8, 5, 3, uniform=True)
    layer = KANLinear(8, 8)
    layer.load_state_dict({key: torch.from_numpy(value).float() for key, value in state.items()})
    x = rng.normal(size=(200, 8))
    y = layer(torch.from_numpy(x).float()).detach().numpy()
    np.testing.assert_allclose(y, scipy_layer(x, state, 3), atol=2e-5)


def test_grid_is_uniform_and_extended():
    grid = KANLinear(2, 3, grid_size=5, spline_order=3).grid
    np.testing.assert_allclose(grid[1].numpy(), np.linspace(-2.2, 2.2, 12), atol=1e-6)


def test_initial_weights_are_drawn_as_efficient_kan_draws_them():
    inputs, outputs, grid, order = 7, 5, 5, 3
    torch.manual_seed(3)
    layer = KANLinear(inputs, outputs, grid, order)
    # The same draws in efficient-kan's order; its least-squares step by numpy, feature by feature.
    torch.manual_seed(3)
    base = nn.init.kaiming_uniform_(torch.empty(outputs, inputs), a=math.sqrt(5))
    noise = ((torch.rand(grid + 1, inputs, outputs) - 0.5) * 0.1 / grid).double().numpy()
    scaler = nn.init.kaiming_uniform_(torch.empty(outputs, inputs), a=math.sqrt(5))
    knots = np.arange(-order, grid + order + 1) * 2 / grid - 1
    at_points = scipy_bases(knots[order:-order, None], knots[None], order)[:, 0]
    assert torch.equal(layer.base_weight, base)
    assert torch.equal(layer.spline_scaler, scaler)
    for i in range(inputs):
        solution = np.linalg.lstsq(at_points, noise[:, i], rcond=None)[0]
        np.testing.assert_allclose(layer.spline_weight[:, i].detach().numpy(), solution.T, atol=1e-7)


def test_ffn_is_two_layers_without_an_activation_between():
    torch.manual_seed(4)
    ffn = build_ffn("kan", 4, 3, grid_size=3)
    assert isinstance(ffn, KANFFN)
    assert set(ffn.state_dict()) == {
        f"layers.{i}.{name}"
        for i in (0, 1)
        for name in ("base_weight", "spline_weight", "spline_scaler", "grid")
    }
    ffn = ffn.double()
    x = np.random.default_rng(5).normal(size=(10, 4))
    for layer in ffn.layers:
        x = scipy_layer(x, {k: v.numpy() for k, v in layer.state_dict().items()}, 3)
    np.testing.assert_allclose(
        ffn(torch.from_numpy(np.random.default_rng(5).normal(size=(10, 4)))).detach().numpy(), x, rtol=1e-7
    )


@pytest.mark.parametrize("layers", ["both", "first"])
def test_the_source_study_shapes_are_options(layers):
    torch.manual_seed(6)
    ffn = build_ffn("kan", 4, 3, layers=layers, activation="gelu")
    x = torch.randn(10, 4)
    first, second = ffn.layers
    assert isinstance(second, KANLinear if layers == "both" else nn.Linear)
    torch.testing.assert_close(ffn(x), second(nn.GELU()(first(x))))
