"""What is told of Jacobi and Hermite layers alone; test_kan_bases.py has what every basis keeps."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import eval_chebyt, eval_jacobi, eval_legendre

from ffn_variants import UsageError, build_ffn
from ffn_variants.variants.series_kan import JacobiBasis

X = torch.tensor([[0.0], [1e-5], [0.5], [-1.0], [2.0], [-4.0], [9.0]], dtype=torch.float64)
U = torch.tanh(X[:, 0]).numpy()


@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (0, 0), (0.5, 2), (-0.5, -0.5), (-0.9, 3), (-0.4, -0.9)])
def test_any_alpha_and_beta_give_the_polynomials_of_scipy(alpha, beta):
    features = JacobiBasis(9, alpha, beta)(X)[:, :, 0].numpy()
    expected = np.stack([eval_jacobi(k, alpha, beta, U) for k in range(10)], 1)
    np.testing.assert_allclose(features, expected, rtol=1e-10, atol=1e-11)


def test_legendre_and_chebyshev_are_among_them():
    legendre, first_kind = (JacobiBasis(6, a, a)(X)[:, :, 0].numpy() for a in (0.0, -0.5))
    for k in range(7):
        np.testing.assert_allclose(legendre[:, k], eval_legendre(k, U), atol=1e-13)
        ratio = eval_jacobi(k, -0.5, -0.5, 1.0)
        np.testing.assert_allclose(first_kind[:, k], ratio * eval_chebyt(k, U), atol=1e-13)


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
