"""Layers with a function on every edge against numpy, edge by edge in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import expit

from ffn_variants import build_ffn
from ffn_variants.variants.edge_kan import MEAN_SQUARES, SILU_MEAN_SQUARE, MLPEdgeLinear, WavKANLinear

WAVELETS = {
    "mexican-hat": lambda z: 2 / (math.sqrt(3) * math.pi**0.25) * (z**2 - 1) * np.exp(-(z**2) / 2),
    "morlet": lambda z: np.cos(5 * z) * np.exp(-(z**2) / 2),
    "dog": lambda z: -z * np.exp(-(z**2) / 2),
}
LAYERS = {
    **{name: lambda i, o, name=name: WavKANLinear(i, o, name) for name in WAVELETS},
    "mlp-edge": lambda i, o: MLPEdgeLinear(i, o, 3),
}
each_layer = pytest.mark.parametrize("name", LAYERS)


def formula(name, layer, x):
    """Sum edge by edge."""
    p = {key: value.detach().double().numpy() for key, value in layer.named_parameters()}
    outputs = next(iter(p.values())).shape[-2]
    y = np.zeros((len(x), outputs))
    for o in range(outputs):
        for i in range(x.shape[1]):
            if name == "mlp-edge":
                for h in range(3):
                    z = p["inner_weight"][h, o, i] * x[:, i] + p["inner_bias"][h, o, i]
                    y[:, o] += p["outer_weight"][h, o, i] * z * expit(z)
            else:
                z = (x[:, i] - p["translation"][o, i]) / p["scale"][o, i]
                y[:, o] += p["weight"][o, i] * WAVELETS[name](z)
    return y + p.get("bias", 0)


def drawn(name, inputs=6, outputs=5):
    """A layer whose parameters are none of those that it begins with."""
    layer = LAYERS[name](inputs, outputs)
    for parameter in layer.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape)
    return layer


@each_layer
@pytest.mark.parametrize(
    ("dtype", "limit", "scale"),
    [("float64", 1e-12, 10.0), ("float32", 1e-6, 0.1), ("float32", 1e-6, 10.0), ("bfloat16", 1e-2, 1.0)],
)
def test_value(name, dtype, limit, scale, error):
    torch.manual_seed(0)
    layer = drawn(name).to(getattr(torch, dtype))
    x = (scale * torch.randn(100, 6)).to(getattr(torch, dtype))
    y = layer(x)
    assert y.dtype == x.dtype
    assert error(y, formula(name, layer, x.double().numpy())) < limit


@each_layer
def test_float32_gradients_are_those_of_float64(name, check_float32_gradients):
    torch.manual_seed(2)
    check_float32_gradients(drawn(name), torch.randn(200, 6))


@pytest.mark.parametrize(
    ("name", "options"), [("mlp-edge", {}), *(("wav-kan", {"wavelet": wavelet}) for wavelet in WAVELETS)]
)
def test_layers_start_with_the_deviation_that_is_asked_for(name, options):
    torch.manual_seed(4)
    first, second = build_ffn(name, 64, 128, init_scale=0.3, **options).layers
    assert first(torch.randn(500, 64)).std().item() == pytest.approx(1, rel=0.1)
    assert second(torch.randn(500, 128)).std().item() == pytest.approx(0.3, rel=0.1)


def test_mean_squares_are_those_of_the_functions():
    x = np.linspace(-12, 12, 200_001)
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    for name, wavelet in WAVELETS.items():
        assert MEAN_SQUARES[name] == pytest.approx((wavelet(x) ** 2 * density).sum(), rel=1e-9)
    z = math.sqrt(2) * x
    assert pytest.approx(((z * expit(z)) ** 2 * density).sum(), rel=0.05) == SILU_MEAN_SQUARE
