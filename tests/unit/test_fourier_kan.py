"""Fourier layers against the double sum of their formula."""

from __future__ import annotations

import numpy as np
import torch

from ffn_variants import build_ffn
from ffn_variants.fourier_kan import FourierKANLinear


def formula(x, coefficients, bias):
    """Sum edge by edge and term by term; coefficients (2, O, I, G), cosines first."""
    _, outputs, inputs, grid = coefficients.shape
    y = np.tile(bias.reshape(1, outputs), (len(x), 1)).astype(np.float64)
    for o in range(outputs):
        for i in range(inputs):
            for k in range(1, grid + 1):
                y[:, o] += coefficients[0, o, i, k - 1] * np.cos(k * x[:, i])
                y[:, o] += coefficients[1, o, i, k - 1] * np.sin(k * x[:, i])
    return y


def test_value():
    rng = np.random.default_rng(0)
    layer = FourierKANLinear(4, 3, grid_size=6).double()
    layer.bias.data = torch.from_numpy(rng.normal(size=3))
    x = rng.normal(size=(2, 5, 4)) * 4
    expected = formula(x.reshape(-1, 4), layer.fouriercoeffs.detach().numpy(), layer.bias.detach().numpy())
    y = layer(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(y, expected.reshape(2, 5, 3), rtol=1e-10, atol=1e-12)


def test_ffn_is_two_layers():
    torch.manual_seed(0)
    ffn = build_ffn("fourier-kan", 4, 3, grid_size=2).double()
    x = y = np.random.default_rng(1).normal(size=(6, 4))
    for layer in ffn.layers:
        y = formula(y, layer.fouriercoeffs.detach().numpy(), layer.bias.detach().numpy())
    np.testing.assert_allclose(ffn(torch.from_numpy(x)).detach().numpy(), y, rtol=1e-9)


def test_initial_outputs_have_unit_variance_whatever_the_input():
    torch.manual_seed(1)
    layer = FourierKANLinear(256, 512)
    std = layer.fouriercoeffs.std().item()
    assert abs(std * np.sqrt(256 * 5) - 1) < 0.01
    for scale in (0.1, 1.0, 10.0):
        assert abs(layer(scale * torch.randn(32, 256)).var().item() - 1) < 0.1
