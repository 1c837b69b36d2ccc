"""What is told of Chebyshev layers alone; test_kan_bases.py has what every basis keeps."""

from __future__ import annotations

import mpmath
import numpy as np
import torch

from ffn_variants.variants.series_kan import ChebyKANLinear, ChebyshevBasis


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


def test_coefficients_are_drawn_as_chebykan_draws_them():
    torch.manual_seed(4)
    coefficients = ChebyKANLinear(100, 80, 4).cheby_coeffs
    assert coefficients.shape == (100, 80, 5)
    torch.manual_seed(4)
    drawn = torch.nn.init.normal_(torch.empty(100, 80, 5), mean=0.0, std=1 / (100 * 5))
    torch.testing.assert_close(coefficients, drawn)
