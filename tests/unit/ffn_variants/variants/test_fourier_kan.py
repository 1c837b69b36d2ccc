"""Fourier layers against the double sum of their formula, and against mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ffn_variants import build_ffn
from ffn_variants.variants.fourier_kan import FourierBasis, FourierKANLinear


def formula(x, coefficients, bias, grad):
    """Sum edge by edge and term by term; coefficients (2, O, I, G), cosines first.

    Returns outputs, and the gradients of x, coefficients and bias from that of the outputs.
    """
    _, outputs, inputs, grid = coefficients.shape
    y = np.tile(bias.reshape(1, outputs), (len(x), 1)).astype(np.float64)
    of_x, of_coefficients = np.zeros_like(x), np.zeros_like(coefficients)
    for o in range(outputs):
        for i in range(inputs):
            for k in range(1, grid + 1):
                a, b = coefficients[:, o, i, k - 1]
                cos, sin = np.cos(k * x[:, i]), np.sin(k * x[:, i])
                y[:, o] += a * cos + b * sin
                of_x[:, i] += grad[:, o] * k * (b * cos - a * sin)
                of_coefficients[:, o, i, k - 1] = (grad[:, o] * cos).sum(), (grad[:, o] * sin).sum()
    return y, [of_x, of_coefficients, grad.sum(0)]


def check(layer, x, grad, error, output_limit, gradient_limit):
    """Compare a layer with its formula in float64, on the numbers that the layer really has."""
    x = x.requires_grad_()
    y = layer(x)
    gradients = torch.autograd.grad(y, [x, layer.fouriercoeffs, layer.bias], grad)
    numbers = (t.detach().double().numpy() for t in (x, layer.fouriercoeffs, layer.bias, grad))
    expected, expected_gradients = formula(*numbers)
    assert error(y, expected) < output_limit
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        assert error(found, wanted) < gradient_limit


@pytest.mark.parametrize("scale", [1.0, 10.0, 300.0])
@pytest.mark.parametrize("grid", [1, 5, 20])
def test_outputs_and_gradients_are_those_of_the_formula_in_float32(grid, scale, error):
    torch.manual_seed(0)
    layer = FourierKANLinear(16, 12, grid, init_scale=0.1)
    check(layer, scale * torch.randn(200, 16), torch.randn(200, 12), error, 1e-6, 5e-6)


def test_compiled_outputs_and_gradients_are_those_of_the_formula_too(compiled_kernels, error):
    torch.manual_seed(1)
    layer = FourierKANLinear(16, 12, 4, init_scale=0.1)
    check(layer, 2 * torch.randn(200, 16), torch.randn(200, 12), error, 1e-6, 5e-6)


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 4)] * 2),
    grid=st.integers(1, 20),
    scale=st.sampled_from([0.01, 1.0, 100.0]),
    seed=st.integers(0, 2**16),
)
def test_any_layer_is_its_formula_in_float64(sizes, grid, scale, seed, error):
    torch.manual_seed(seed)
    layer = FourierKANLinear(*sizes, grid).double()
    layer.bias.data.normal_()
    x = scale * torch.randn(6, sizes[0], dtype=torch.float64)
    check(layer, x, torch.randn(6, sizes[1], dtype=torch.float64), error, 1e-11, 1e-11)


def test_twenty_frequencies_of_inputs_up_to_a_thousand_are_mpmaths():
    x = torch.tensor([0.0, 1e-6, 0.5, 3.14159265, -2.5, 22.0, 355.0, 999.99, -1000.0]).unsqueeze(1)
    features = FourierBasis(20)(x)[:, :, 0].double().numpy()
    with mpmath.workdps(40):
        # float() of a float32 is exact, so mpmath sees the very input.
        expected = [
            [
                function(k * mpmath.mpf(float(v)))
                for function in (mpmath.cos, mpmath.sin)
                for k in range(1, 21)
            ]
            for v in x[:, 0]
        ]
    assert abs(features - np.array(expected, dtype=float)).max() < 2e-6


def test_gradients_agree_with_finite_differences():
    torch.manual_seed(2)
    layer = FourierKANLinear(3, 2, 4).double()
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: layer(x), (x, *layer.parameters()))


@pytest.mark.parametrize("way", ["cast", "autocast"])
def test_bf16_is_within_a_hundredth(way, error):
    torch.manual_seed(3)
    layer = FourierKANLinear(64, 32, init_scale=0.1).bfloat16()
    x, grad = torch.randn(256, 64).bfloat16(), torch.randn(256, 32).bfloat16()
    expected = formula(*(t.detach().double().numpy() for t in (x, layer.fouriercoeffs, layer.bias, grad)))
    if way == "autocast":
        layer, x = layer.float(), x.float()
    x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=way == "autocast"):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    assert error(y, expected[0]) < 1e-2
    found = torch.autograd.grad(y, [x, layer.fouriercoeffs, layer.bias], grad)
    for gradient, wanted in zip(found, expected[1], strict=True):
        assert error(gradient, wanted) < 1e-2


def test_ffn_is_two_layers():
    torch.manual_seed(0)
    ffn = build_ffn("fourier-kan", 4, 3, grid_size=2).double()
    x = y = np.random.default_rng(1).normal(size=(6, 4))
    for layer in ffn.layers:
        weights = (layer.fouriercoeffs.detach().numpy(), layer.bias.detach().numpy())
        y, _ = formula(y, *weights, np.zeros((6, len(weights[1]))))
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), y, rtol=1e-9)


def test_initial_outputs_have_unit_variance_whatever_the_input():
    torch.manual_seed(1)
    layer = FourierKANLinear(256, 512)
    std = layer.fouriercoeffs.std().item()
    assert abs(std * np.sqrt(256 * 5) - 1) < 0.01
    for scale in (0.1, 1.0, 10.0):
        assert abs(layer(scale * torch.randn(32, 256)).var().item() - 1) < 0.1
