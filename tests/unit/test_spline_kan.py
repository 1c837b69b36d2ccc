"""Feature splines against their formula, and what they do not do: mix features."""

from __future__ import annotations

import numpy as np
import torch

from ffn_variants import build_ffn
from ffn_variants.spline_kan import INITIAL_RMS, FeatureSplines


def formula(x, knots, coefficients):
    y = np.zeros_like(x)
    for i in range(x.shape[1]):
        for t, c in zip(knots[i], coefficients[i], strict=True):
            y[:, i] += c * np.maximum(t - x[:, i], 0) ** 3
    return y


def test_value():
    rng = np.random.default_rng(0)
    splines = FeatureSplines(4, num_knots=10).double()
    splines.knots.data = torch.from_numpy(rng.normal(size=(4, 10)))
    splines.coefficients.data = torch.from_numpy(rng.normal(size=(4, 10)))
    x = rng.normal(size=(2, 7, 4)) * 2
    expected = formula(
        x.reshape(-1, 4), splines.knots.detach().numpy(), splines.coefficients.detach().numpy()
    )
    y = splines(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(y, expected.reshape(2, 7, 4), rtol=1e-10, atol=1e-12)


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
