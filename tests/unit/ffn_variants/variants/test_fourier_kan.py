"""What is told of Fourier layers alone; test_kan_bases.py has what every basis keeps."""

from __future__ import annotations

import mpmath
import numpy as np
import torch

from ffn_variants.variants.series_kan import FourierBasis, FourierKANLinear


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


def test_initial_outputs_have_unit_variance_whatever_the_input():
    torch.manual_seed(1)
    layer = FourierKANLinear(256, 512)
    std = layer.fouriercoeffs.std().item()
    assert abs(std * np.sqrt(256 * 5) - 1) < 0.01
    for scale in (0.1, 1.0, 10.0):
        assert abs(layer(scale * torch.randn(32, 256)).var().item() - 1) < 0.1
