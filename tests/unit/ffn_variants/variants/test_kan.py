"""KAN layers against scipy's B-splines, and against what efficient-kan saves and draws."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, ndtr
from torch import nn

from ffn_variants import build_ffn
from ffn_variants.splines.b_splines import EvenSplines, UnevenSplines
from ffn_variants.variants.kan import KANFFN, KANLinear
from tests.references import scipy_bases


def scipy_layer(x, state, order, grad=None):
    """Compute the layer by its formula, edge by edge.

    With the (N, O) gradient of its output also the gradients of x and of every parameter, by the chain rule.
    """
    bases = scipy_bases(x, state["grid"], order)
    splines = state["spline_weight"] * state["spline_scaler"][..., None]
    y = (x * expit(x)) @ state["base_weight"].T + np.einsum("nic,oic->no", bases, splines)
    if grad is None:
        return y
    curve_slopes = np.einsum("nic,oic->noi", scipy_bases(x, state["grid"], order, 1), splines)
    silu_slope = expit(x) * (1 + x * expit(-x))
    of_splines = np.einsum("no,nic->oic", grad, bases)
    return y, {
        "x": (grad @ state["base_weight"]) * silu_slope + np.einsum("no,noi->ni", grad, curve_slopes),
        "base_weight": grad.T @ (x * expit(x)),
        "spline_weight": of_splines * state["spline_scaler"][..., None],
        "spline_scaler": (of_splines * state["spline_weight"]).sum(-1),
    }


def efficient_kan_state(rng, inputs, outputs, grid, order, even=True):
    """Write a state dict as efficient-kan saves one; knots even, or uneven as after its update_grid."""
    knots = (np.arange(-order, grid + order + 1) * 2 / grid - 1)[None].repeat(inputs, 0)
    if not even:
        # Intervals from a tenth of the longest up.
        widths = rng.uniform(0.1, 1, size=(inputs, grid + 2 * order))
        widths *= 6 / widths.sum(1, keepdims=True)
        knots = np.concatenate([np.zeros((inputs, 1)), widths.cumsum(1)], 1) - 3
    bound = 1 / math.sqrt(inputs)
    return {
        "base_weight": rng.uniform(-bound, bound, size=(outputs, inputs)),
        # Fifty times the initial size, which would hide the splines behind the base term.
        "spline_weight": rng.normal(size=(outputs, inputs, grid + order)),
        "spline_scaler": rng.uniform(-bound, bound, size=(outputs, inputs)),
        "grid": knots,
    }


def layer_from(state, dtype=torch.float64):
    outputs, inputs, count = state["spline_weight"].shape
    order = state["grid"].shape[1] - count - 1
    layer = KANLinear(inputs, outputs, count - order, order).to(dtype)
    layer.load_state_dict({key: torch.from_numpy(value) for key, value in state.items()}, strict=True)
    return layer


def numpy_state(layer):
    return {key: value.double().numpy() for key, value in layer.state_dict().items()}


def outputs_and_gradients(layer, x, grad):
    x = x.clone().requires_grad_()
    y = layer(x)
    gradients = torch.autograd.grad(y, [x, *layer.parameters()], grad.to(y.dtype))
    return y, dict(zip(["x", *dict(layer.named_parameters())], gradients, strict=True))


def check(layer, x, grad, error, output_limit, gradient_limit):
    """Compare a layer with its formula in float64, on the numbers that the layer really has."""
    y, gradients = outputs_and_gradients(layer, x, grad)
    expected, expected_gradients = scipy_layer(
        x.double().numpy(), numpy_state(layer), layer.spline_order, grad.double().numpy()
    )
    assert gradients.keys() == expected_gradients.keys()
    assert error(y, expected) < output_limit
    for name, gradient in gradients.items():
        assert error(gradient, expected_gradients[name]) < gradient_limit, name


def inputs_for(layer, rows=300):
    """Normal inputs; knots, where slopes are continuous; both sides of the knots; and some far out."""
    knots = layer.grid.double().t()
    step = knots.diff(dim=0).max()
    on = [knots] if layer.spline_order > 1 else []
    x = torch.cat([torch.randn(rows, len(layer.grid)), knots - 1e-3 * step, knots + 1e-3 * step, *on])
    far = torch.tensor([50.0, -50.0]).unsqueeze(1).expand(-1, x.shape[1])
    return torch.cat([x, far]).to(layer.grid.dtype)


@pytest.mark.parametrize(
    ("grid", "order", "even", "compiled"),
    [
        *((5, 3, True, False), (1, 1, False, False), (4, 2, True, False)),
        *((20, 3, False, False), (20, 5, True, False)),
        pytest.param(2, 3, False, True, marks=pytest.mark.slow),
    ],
)
def test_outputs_and_gradients_are_those_of_the_formula_in_float32(
    grid, order, even, compiled, error, request
):
    if compiled:
        request.getfixturevalue("compiled_kernels")
    rng = np.random.default_rng(1)
    layer = layer_from(efficient_kan_state(rng, 24, 16, grid, order, even), torch.float32)
    assert isinstance(layer._splines()[0], EvenSplines if even else UnevenSplines)
    torch.manual_seed(0)
    x = inputs_for(layer)
    check(layer, x, torch.randn(len(x), 16), error, 1e-6, 5e-6)


@given(
    inputs=st.integers(1, 5),
    outputs=st.integers(1, 5),
    rows=st.integers(1, 12),
    grid=st.integers(1, 20),
    order=st.integers(1, 5),
    even=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_any_layer_is_its_formula_in_float64(inputs, outputs, rows, grid, order, even, seed, error):
    rng = np.random.default_rng(seed)
    layer = layer_from(efficient_kan_state(rng, inputs, outputs, grid, order, even))
    assert isinstance(layer._splines()[0], EvenSplines if even else UnevenSplines)
    x, grad = (torch.from_numpy(rng.normal(size=(rows, width)) * 1.5) for width in (inputs, outputs))
    check(layer, x, grad, error, 1e-11, 1e-10)


@pytest.mark.parametrize(
    ("way", "even", "grid", "order"),
    [("cast", True, 5, 3), ("cast", False, 20, 3), ("autocast", True, 5, 5), ("autocast", False, 5, 3)],
)
def test_bf16_is_within_a_hundredth(way, even, grid, order, error):
    torch.manual_seed(7)
    state = efficient_kan_state(np.random.default_rng(7), 64, 32, grid, order, even)
    # Numbers that bf16 holds, so that what is measured is the layer and not the rounding of what it is given.
    keep = {"grid"} if way == "autocast" or even else set()
    rounded = {
        k: v if k in keep else torch.from_numpy(v).bfloat16().double().numpy() for k, v in state.items()
    }
    layer = layer_from(rounded, torch.float32)
    x, grad = (torch.randn(256, width).bfloat16() for width in (64, 32))
    expected, expected_gradients = scipy_layer(x.double().numpy(), rounded, order, grad.double().numpy())
    if way == "cast":
        layer = layer.bfloat16()
        y, gradients = outputs_and_gradients(layer, x, grad)
    else:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y, gradients = outputs_and_gradients(layer, x.float(), grad)
    assert y.dtype == torch.bfloat16
    assert error(y, expected) < 1e-2
    for name, gradient in gradients.items():
        assert gradient.dtype == (torch.float32 if way == "autocast" else torch.bfloat16)
        assert error(gradient, expected_gradients[name]) < 1e-2, name


def test_a_grid_that_was_changed_replaced_or_loaded_is_noticed():
    torch.manual_seed(9)
    layer = KANLinear(2, 3).double()
    x = torch.randn(20, 2).double()

    def is_its_formula():
        expected = scipy_layer(x.numpy(), numpy_state(layer), 3)
        return np.allclose(layer(x).detach().numpy(), expected, rtol=1e-9, atol=1e-9)

    before = layer(x)
    assert is_its_formula()
    with torch.no_grad():
        layer.grid[:, 5] += 0.1
    assert is_its_formula()
    assert not torch.allclose(layer(x), before)
    moved = layer.state_dict()["grid"] + 0.05
    layer.load_state_dict({**layer.state_dict(), "grid": moved})
    assert is_its_formula()
    layer.load_state_dict({**layer.state_dict(), "grid": moved + 0.05}, assign=True)
    assert is_its_formula()
    layer.grid = moved - 0.1
    assert is_its_formula()
    before, other = layer(x), copy.deepcopy(layer)
    other.update_grid(2 * x)
    assert not torch.allclose(other(0.1 * x), layer(0.1 * x), atol=1e-9)
    assert torch.equal(layer(x), before)


def test_a_layer_made_in_inference_mode_works_and_notices_its_grid_too():
    with torch.inference_mode():
        layer = KANLinear(2, 3).double()
        x = torch.randn(20, 2).double()
        for _ in range(2):
            expected = scipy_layer(x.numpy(), numpy_state(layer), 3)
            np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-9, atol=1e-9)
            layer.grid[:, 5] += 0.1


def test_a_layer_that_was_used_in_inference_mode_first_can_be_trained():
    torch.manual_seed(12)
    used, fresh = KANLinear(2, 3), KANLinear(2, 3)
    x = torch.randn(30, 2)
    used.update_grid(x)  # uneven knots are kept as tensors beside the grid
    fresh.load_state_dict(used.state_dict())
    with torch.inference_mode():
        used(x)
    for layer in (used, fresh):
        layer(x).square().sum().backward()
    for parameter, expected in zip(used.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(parameter.grad, expected.grad)


def test_grid_is_even_and_extended():
    grid = KANLinear(2, 3, grid_size=5, spline_order=3).grid
    np.testing.assert_allclose(grid[1].numpy(), np.linspace(-2.2, 2.2, 12), atol=1e-6)


@pytest.mark.parametrize(("grid", "order"), [(20, 3), (3, 5), (4, 1)])
def test_initial_weights_are_drawn_as_efficient_kan_draws_them(grid, order):
    inputs, outputs = 7, 5
    torch.manual_seed(3)
    layer = KANLinear(inputs, outputs, grid, order)
    # The same draws in efficient-kan's order; its least-squares step by numpy, feature by feature.
    torch.manual_seed(3)
    base = nn.init.kaiming_uniform_(torch.empty(outputs, inputs), a=math.sqrt(5))
    noise = ((torch.rand(grid + 1, inputs, outputs) - 0.5) * 0.1 / grid).double().numpy()
    scaler = nn.init.kaiming_uniform_(torch.empty(outputs, inputs), a=math.sqrt(5))
    # The knots' last bits decide on which side of the last grid point order 1 sees it.
    knots = layer.grid[:1].double().numpy()
    at_points = scipy_bases(knots.T[order:-order], knots, order)[:, 0]
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
    x = y = np.random.default_rng(5).normal(size=(10, 4))
    for layer in ffn.layers:
        y = scipy_layer(y, numpy_state(layer), 3)
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), y, rtol=1e-7)


@pytest.mark.parametrize("layers", ["both", "first"])
def test_thesis_kan_is_the_source_studys_by_its_formula(layers):
    """Grid 3 and order 3, the erf-GELU between the layers, a linear second layer where RoBERTa had one."""
    torch.manual_seed(7)
    ffn = build_ffn("thesis-kan", 4, 6, **({} if layers == "both" else {"layers": layers})).double()
    x = np.random.default_rng(8).normal(size=(10, 4))
    first, second = ffn.layers
    hidden = scipy_layer(x, numpy_state(first), 3)
    assert first.grid.shape[1] == 3 + 2 * 3 + 1
    hidden = hidden * ndtr(hidden)
    state = numpy_state(second)
    y = scipy_layer(hidden, state, 3) if layers == "both" else hidden @ state["weight"].T + state["bias"]
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), y, rtol=1e-7)
