"""Chebyshev layers against numpy's Chebyshev series."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev

from ffn_variants import build_ffn
from ffn_variants.variants.cheby_kan import ChebyKANLinear, ChebyshevBasis


def formula(x, coefficients, grad):
    """Sum edge by edge; coefficients (I, O, n + 1).

    Returns outputs, and the gradients of x and of the coefficients from that of the outputs.
    """
    u = np.tanh(x)
    inputs, outputs, terms = coefficients.shape
    y, of_x, of_coefficients = np.zeros((len(x), outputs)), np.zeros_like(x), np.zeros_like(coefficients)
    for i in range(inputs):
        for o in range(outputs):
            series = coefficients[i, o]
            y[:, o] += chebyshev.chebval(u[:, i], series)
            slope = chebyshev.chebval(u[:, i], chebyshev.chebder(series))
            of_x[:, i] += grad[:, o] * slope / np.cosh(x[:, i]) ** 2
            for k in range(terms):
                of_coefficients[i, o, k] = grad[:, o] @ chebyshev.chebval(u[:, i], np.eye(terms)[k])
    return y, [of_x, of_coefficients]


def check(layer, x, grad, error, output_limit, gradient_limit):
    """Compare a layer with its formula in float64, on the numbers that the layer really has."""
    x = x.requires_grad_()
    y = layer(x)
    gradients = torch.autograd.grad(y, [x, layer.cheby_coeffs], grad)
    expected, expected_gradients = formula(
        *(t.detach().double().numpy() for t in (x, layer.cheby_coeffs, grad))
    )
    assert error(y, expected) < output_limit
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        assert error(found, wanted) < gradient_limit


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("degree", [1, 4, 8, 20])
def test_outputs_and_gradients_are_those_of_the_formula_in_float32(degree, scale, error):
    torch.manual_seed(0)
    layer = ChebyKANLinear(16, 12, degree)
    x = scale * torch.randn(200, 16)
    x[0], x[1], x[2] = 50.0, -50.0, 0.0
    # Near the ends T_n has slope n^2: what float32 rounds off tanh x is 400 times as much in T_20.
    limits = (1e-6, 5e-6) if degree < 20 else (1e-6, 1e-5)
    check(layer, x, torch.randn(200, 12), error, *limits)


def test_compiled_outputs_and_gradients_are_those_of_the_formula_too(compiled_kernels, error):
    torch.manual_seed(1)
    layer = ChebyKANLinear(16, 12)
    check(layer, torch.randn(200, 16), torch.randn(200, 12), error, 1e-6, 5e-6)


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 4)] * 2),
    degree=st.integers(1, 20),
    scale=st.sampled_from([0.01, 1.0, 5.0]),
    seed=st.integers(0, 2**16),
)
def test_any_layer_is_its_formula_in_float64(sizes, degree, scale, seed, error):
    torch.manual_seed(seed)
    layer = ChebyKANLinear(*sizes, degree).double()
    x = scale * torch.randn(6, sizes[0], dtype=torch.float64)
    check(layer, x, torch.randn(6, sizes[1], dtype=torch.float64), error, 1e-12, 1e-11)


def test_polynomials_are_cosines_of_multiples_by_mpmath():
    x = torch.tensor([[0.0], [1e-5], [0.5], [-1.0], [2.0], [-4.0], [9.0]], dtype=torch.float64)
    features = ChebyshevBasis(12)(x)[:, :, 0].numpy()
    with mpmath.workdps(40):
        expected = [[mpmath.cos(k * mpmath.acos(mpmath.tanh(float(v)))) for k in range(13)] for v in x[:, 0]]
    np.testing.assert_allclose(features, np.array(expected, dtype=float), atol=1e-13)


def test_infinite_inputs_are_the_ends_of_the_polynomials():
    layer = ChebyKANLinear(1, 3)
    x = torch.tensor([[torch.inf], [-torch.inf], [1e30]], requires_grad=True)
    y = layer(x)
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])
    ends = layer.cheby_coeffs[0].sum(1), (layer.cheby_coeffs[0] * signs).sum(1)
    torch.testing.assert_close(y, torch.stack([ends[0], ends[1], ends[0]]))
    y.sum().backward()
    assert not x.grad.any()


def test_gradients_agree_with_finite_differences():
    torch.manual_seed(2)
    layer = ChebyKANLinear(3, 2).double()
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: layer(x), (x, *layer.parameters()))


@pytest.mark.parametrize("way", ["cast", "autocast"])
def test_bf16_is_within_a_hundredth(way, error):
    torch.manual_seed(3)
    layer = ChebyKANLinear(64, 32).bfloat16()
    x, grad = torch.randn(256, 64).bfloat16(), torch.randn(256, 32).bfloat16()
    expected = formula(*(t.detach().double().numpy() for t in (x, layer.cheby_coeffs, grad)))
    if way == "autocast":
        layer, x = layer.float(), x.float()
    x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=way == "autocast"):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    assert error(y, expected[0]) < 1e-2
    # Outputs are far below 1 at the start; so also by their own size.
    assert np.linalg.norm(y.detach().double().numpy() - expected[0]) < 1e-2 * np.linalg.norm(expected[0])
    for gradient, wanted in zip(
        torch.autograd.grad(y, [x, layer.cheby_coeffs], grad), expected[1], strict=True
    ):
        assert error(gradient, wanted) < 1e-2


def test_coefficients_are_drawn_as_chebykan_draws_them():
    torch.manual_seed(4)
    coefficients = ChebyKANLinear(100, 80, 4).cheby_coeffs
    assert coefficients.shape == (100, 80, 5)
    torch.manual_seed(4)
    drawn = torch.nn.init.normal_(torch.empty(100, 80, 5), mean=0.0, std=1 / (100 * 5))
    torch.testing.assert_close(coefficients, drawn)


def test_ffn_is_two_layers():
    torch.manual_seed(5)
    ffn = build_ffn("cheby-kan", 4, 3, degree=3).double()
    x = y = np.random.default_rng(1).normal(size=(6, 4))
    for layer in ffn.layers:
        coefficients = layer.cheby_coeffs.detach().numpy()
        y, _ = formula(y, coefficients, np.zeros((6, coefficients.shape[1])))
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), y, rtol=1e-9, atol=1e-14)
