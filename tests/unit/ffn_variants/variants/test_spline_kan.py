"""Feature splines against their formula, by themselves and between two linear layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ffn_variants import build_ffn
from ffn_variants.kernels import elementwise
from ffn_variants.variants.spline_kan import INITIAL_RMS, PRE_ACTIVATION_STD, FeatureSplines, SplineActivation


def formula(x, knots, coefficients, grad=None):
    """Sum term by term; with the gradient of the result also those of x, knots and coefficients."""
    y, of_x = np.zeros_like(x), np.zeros_like(x)
    of_knots, of_coefficients = np.zeros_like(knots), np.zeros_like(knots)
    for i in range(x.shape[1]):
        for k, (t, c) in enumerate(zip(knots[i], coefficients[i], strict=True)):
            reach = np.maximum(t - x[:, i], 0)
            y[:, i] += c * reach**3
            if grad is not None:
                slope = grad[:, i] * 3 * c * reach**2
                of_x[:, i] -= slope
                of_knots[i, k] = slope.sum()
                of_coefficients[i, k] = grad[:, i] @ reach**3
    return y if grad is None else (y, [of_x, of_knots, of_coefficients])


def check(splines, x, grad, error, output_limit, gradient_limit):
    """Compare splines with their formula in float64, on the numbers that they really have."""
    x = x.requires_grad_()
    y = splines(x)
    gradients = torch.autograd.grad(y, [x, splines.knots, splines.coefficients], grad)
    expected, expected_gradients = formula(
        *(t.detach().double().numpy() for t in (x, splines.knots, splines.coefficients, grad))
    )
    assert error(y, expected) < output_limit
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        assert error(found, wanted) < gradient_limit


@pytest.mark.parametrize(("num_knots", "rows"), [(2, 200), (20, 200), (10, 5000)])
def test_outputs_and_gradients_are_those_of_the_formula_in_float32(num_knots, rows, error):
    torch.manual_seed(0)
    splines = FeatureSplines(6, num_knots)
    x = torch.randn(rows, 6)
    x[:num_knots] = splines.knots.detach().t()  # exactly at the knots
    check(splines, x, torch.randn(rows, 6), error, 1e-6, 5e-6)


@given(
    features=st.integers(1, 5),
    num_knots=st.integers(2, 20),
    rows=st.integers(1, 30),
    block=st.sampled_from([1, 7, 64, 2**17]),
    seed=st.integers(0, 2**16),
)
def test_any_splines_are_their_formula_in_float64(features, num_knots, rows, block, seed, error):
    torch.manual_seed(seed)
    splines = FeatureSplines(features, num_knots).double()
    splines.knots.data.normal_()
    splines.coefficients.data.normal_()
    x, grad = torch.randn(2, rows, features, dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elementwise, "BLOCK_NUMBERS", {"cpu": block})
        check(splines, 2 * x, grad, error, 1e-12, 1e-12)


@pytest.mark.parametrize("way", ["cast", "autocast"])
def test_bf16_is_within_a_hundredth(way, error):
    torch.manual_seed(3)
    splines = FeatureSplines(64).bfloat16()
    x, grad = torch.randn(2, 256, 64).bfloat16()
    numbers = (t.detach().double().numpy() for t in (x, splines.knots, splines.coefficients, grad))
    expected, expected_gradients = formula(*numbers)
    if way == "autocast":
        splines, x, grad = splines.float(), x.float(), grad.float()
    x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=way == "autocast"):
        y = splines(x)
    assert y.dtype == x.dtype
    assert error(y, expected) < 1e-2
    found = torch.autograd.grad(y, [x, splines.knots, splines.coefficients], grad)
    for gradient, wanted in zip(found, expected_gradients, strict=True):
        assert error(gradient, wanted) < 1e-2


def test_ffn_is_input_splines_then_output_splines():
    torch.manual_seed(0)
    ffn = build_ffn("spline-kan", 5, 99, num_knots=6).double()
    x = y = np.random.default_rng(1).normal(size=(8, 5))
    for splines in (ffn.input_splines, ffn.output_splines):
        y = formula(y, splines.knots.detach().numpy(), splines.coefficients.detach().numpy())
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), y, rtol=1e-10)


def test_no_feature_reaches_another_and_the_inner_width_has_no_effect():
    torch.manual_seed(1)
    ffn = build_ffn("spline-kan", 6, 7)
    jacobian = torch.autograd.functional.jacobian(ffn, torch.randn(6))
    assert not (jacobian - torch.diag(jacobian.diagonal())).any()
    shapes = [p.shape for p in ffn.parameters()]
    assert shapes == [p.shape for p in build_ffn("spline-kan", 6, 700).parameters()]


def test_initial_outputs_are_small_for_normalised_inputs():
    torch.manual_seed(2)
    ffn = build_ffn("spline-kan", 512, 1)
    x = torch.randn(2048, 512)
    assert abs(ffn.input_splines(x).square().mean().sqrt().item() / INITIAL_RMS - 1) < 0.1
    y = ffn(x)
    assert 0.03 < y.square().mean().sqrt() < 0.2
    assert y.abs().max() < 50


def test_the_published_initialisation_is_normal_and_its_outputs_are_huge():
    """The post: knots and coefs = randn(10, 1) of every feature."""
    torch.manual_seed(2)
    ffn = build_ffn("spline-kan", 512, 1, initialisation="published")
    for splines in (ffn.input_splines, ffn.output_splines):
        for drawn in (splines.knots, splines.coefficients):
            assert abs(drawn.mean()) < 0.05
            assert abs(drawn.std() - 1) < 0.05
    y = ffn(torch.randn(4096, 512)).detach()
    assert y.square().mean().sqrt() > 1e5
    assert y.abs().median() < 5


def test_activation_is_splines_between_the_stock_linear_layers():
    torch.manual_seed(3)
    ffn = build_ffn("spline-activation", 4, 7, num_knots=5).double()
    weights = {name: tensor.numpy() for name, tensor in ffn.state_dict().items()}
    assert set(weights) == {
        "c_fc.weight", "c_fc.bias", "act.knots", "act.coefficients", "c_proj.weight", "c_proj.bias"
    }  # fmt: skip
    x = np.random.default_rng(3).normal(size=(9, 4))
    hidden = formula(
        x @ weights["c_fc.weight"].T + weights["c_fc.bias"], weights["act.knots"], weights["act.coefficients"]
    )
    expected = hidden @ weights["c_proj.weight"].T + weights["c_proj.bias"]
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("num_knots", [4, 30])
def test_activation_starts_with_curves_through_zero_of_gelus_size(num_knots):
    torch.manual_seed(4)
    x = torch.randn(5_000) * PRE_ACTIVATION_STD
    splines = SplineActivation(400, num_knots)
    y = splines(x.unsqueeze(1).expand(-1, 400)).detach()
    wanted = torch.nn.functional.gelu(x).square().mean().sqrt()
    assert abs(y.square().mean().sqrt() / wanted - 1) < 0.1
    assert splines(torch.zeros(1, 400)).abs().max() < 1e-5
    assert y.std(0).square().mean().sqrt() > 0.8 * wanted  # and so says something of the token
