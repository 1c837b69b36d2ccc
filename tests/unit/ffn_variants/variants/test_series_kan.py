"""What is told of one series alone; test_kan_bases.py has what every basis keeps."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy.special import eval_jacobi, eval_legendre

from ffn_variants import UsageError, build_ffn
from ffn_variants.variants.series_kan import (
    ChebyKANLinear,
    ChebyshevBasis,
    FourierBasis,
    FourierKANLinear,
    JacobiBasis,
    SineKANLinear,
)

X = torch.tensor([[0.0], [1e-5], [0.5], [-1.0], [2.0], [-4.0], [9.0]], dtype=torch.float64)
U = torch.tanh(X[:, 0]).numpy()


@pytest.mark.parametrize(("alpha", "beta"), [(0, 0), (0.5, 2), (-0.5, -0.5), (-0.9, 3)])
def test_any_alpha_and_beta_give_the_polynomials_of_scipy(alpha, beta):
    features = JacobiBasis(9, alpha, beta)(X)[:, :, 0].numpy()
    expected = np.stack([eval_jacobi(k, alpha, beta, U) for k in range(10)], 1)
    np.testing.assert_allclose(features, expected, rtol=1e-10, atol=1e-11)


def test_the_variant_takes_them_as_options():
    layer = build_ffn("jacobi-kan", 5, 6, alpha=0, beta=0, degree=3).layers[0].double()
    expected = np.einsum(
        "nik,iok->no",
        np.stack([eval_legendre(k, np.tanh(X.expand(-1, 5).numpy())) for k in range(4)], -1),
        layer.coefficients.detach().numpy(),
    )
    np.testing.assert_allclose(layer(X.expand(-1, 5)).detach().numpy(), expected, atol=1e-13)
    with pytest.raises(UsageError, match="alpha and beta must be above -1, got alpha 1, beta -1"):
        build_ffn("jacobi-kan", 5, 6, beta=-1)


def test_coefficients_start_as_those_of_the_sources_but_for_the_norms_of_hermite():
    torch.manual_seed(0)
    jacobi = build_ffn("jacobi-kan", 100, 80).layers[0].coefficients
    assert jacobi.shape == (100, 80, 5)
    assert jacobi.std().item() == pytest.approx(1 / 500, rel=0.02)
    hermite = build_ffn("hermite-kan", 100, 80).layers[0].coefficients
    for k, deviation in enumerate(hermite.std((0, 1)).tolist()):
        assert deviation == pytest.approx(1 / 500 / math.sqrt(2**k * math.factorial(k)), rel=0.05)


def test_polynomials_are_cosines_of_multiples_by_mpmath():
    features = ChebyshevBasis(12)(X)[:, :, 0].numpy()
    with mpmath.workdps(40):
        expected = [[mpmath.cos(k * mpmath.acos(mpmath.tanh(float(v)))) for k in range(13)] for v in X[:, 0]]
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


@pytest.mark.parametrize(("grid", "inputs"), [(1, 7), (8, 1), (5, 7)])
def test_phases_are_those_of_sinekan_but_for_whole_turns(grid, inputs):
    phase = np.arange(1, grid + 1) / (grid + 1) + np.linspace(0, np.pi, inputs)[:, None]
    for size in range(1, grid):  # as its grid grows, term by term
        phase = phase * (0.9724108095811765 * size**-0.9884401790754128 + 0.999449553483052)
    found = SineKANLinear(inputs, 3, grid).phase.numpy().T
    np.testing.assert_allclose(np.exp(1j * found), np.exp(1j * phase), atol=1e-5)
    assert ((found >= 0) & (found <= 2 * np.pi)).all()


def test_layers_start_as_those_of_sinekan():
    torch.manual_seed(0)
    first, second = build_ffn("sine-kan", 100, 80, grid_size=4).layers
    assert first.frequency.tolist() == [1, 2, 3, 4]
    assert second.frequency.tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert first.amplitudes[..., 0].std().item() == pytest.approx(0.4 / 80, rel=0.02)
    assert second.amplitudes[..., 0].abs().max().item() == pytest.approx(1 / 100, rel=0.02)
    for layer, outputs in ((first, 80), (second, 100)):
        amplitudes = layer.amplitudes.detach()
        for g in range(4):
            torch.testing.assert_close(amplitudes[..., g], amplitudes[..., 0] / (g + 1))
        assert layer.bias.tolist() == pytest.approx([1 / outputs] * outputs)
