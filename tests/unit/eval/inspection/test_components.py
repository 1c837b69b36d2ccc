"""Functional components against numpy's SVD of all curves, and the bound that algebra sets them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eval.inspection.components import components, edge_curves, occurring_points
from eval.inspection.kan_edges import random_like
from ffn_variants import FFN_VARIANTS, build_ffn
from ffn_variants.inside.edges import edge_layers, edges_of, is_kan
from ffn_variants.variants.cheby_kan import ChebyKANLinear
from ffn_variants.variants.kan import KANFFN, KANLinear

BLOCKS = [name for name, spec in FFN_VARIANTS.items() if spec.kind == "block"]
KANS = [name for name in BLOCKS if any(is_kan(layer) for _, layer in edge_layers(build_ffn(name, 8, 8)))]


def all_curves(edges, points: torch.Tensor) -> np.ndarray:
    """(E, Q) every edge at the points, without its mean."""
    outputs, inputs = edges.weight.shape[0], edges.weight.shape[2]
    spread = points[:, None].expand(-1, inputs).float().contiguous()
    basis = edges.basis(spread).double().numpy()
    weight = edges.weight[:, : basis.shape[1]].double().numpy()
    curves = np.einsum("qki,oki->oiq", basis, weight).reshape(outputs * inputs, -1)
    return curves - curves.mean(1, keepdims=True)


@pytest.mark.parametrize("name", KANS)
def test_components_are_those_of_a_singular_value_decomposition(name):
    torch.manual_seed(2)
    for _, layer in edge_layers(build_ffn(name, 10, 14)):
        if not is_kan(layer):
            continue
        edges = edges_of(layer)
        points = occurring_points(edges.coordinates(torch.randn(500, edges.weight.shape[2])).detach())
        found = components(edges, points)
        curves = all_curves(edges, points)
        sizes = np.linalg.svd(curves - curves.mean(0), compute_uv=False) ** 2
        shares = (sizes / sizes.sum())[: len(found.explained)]
        np.testing.assert_allclose(found.explained, shares, atol=1e-6)
        assert found.dimension == pytest.approx(sizes.sum() ** 2 / (sizes**2).sum(), rel=1e-5)
        assert found.explained.sum() == pytest.approx(1)
        np.testing.assert_allclose((found.shapes**2).mean(1), 1, rtol=1e-8)
        chosen = torch.tensor([[0, 0], [len(edges.weight) - 1, edges.weight.shape[2] - 1]])
        rows = chosen[:, 0] * edges.weight.shape[2] + chosen[:, 1]
        np.testing.assert_allclose(edge_curves(edges, chosen, points), curves[rows], atol=1e-9)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_a_small_basis_has_few_components_whatever_its_coefficients(degree):
    """On a small basis, "three components explain all" is algebra: so do those of noise."""
    torch.manual_seed(degree)
    edges = edges_of(ChebyKANLinear(20, 30, degree))
    x = torch.randn(800, 20)
    points = occurring_points(x)
    found = components(edges, points)
    noise = components(random_like(edges, torch.Generator().manual_seed(0)), points)
    assert found.bound == noise.bound == degree  # T_0 is a constant, which is no shape
    assert len(found.explained) == len(noise.explained) == degree
    assert np.linalg.matrix_rank(all_curves(edges, points), rtol=1e-6) == degree


def test_the_bound_of_splines_counts_what_the_inputs_reach():
    torch.manual_seed(0)
    edges = edges_of(KANLinear(6, 8, grid_size=5))
    wide = components(edges, torch.linspace(-1.5, 1.5, 128, dtype=torch.float64))
    assert wide.bound == 9  # eight splines and SiLU; beyond the grid they no longer add up to a constant
    narrow = components(edges, torch.linspace(-0.19, 0.19, 128, dtype=torch.float64))
    assert narrow.bound == 3  # within one interval: cubics without their constant, as SiLU is one there


def test_inputs_with_knots_of_their_own():
    torch.manual_seed(0)
    ffn, x = KANFFN(5, 7), torch.randn(400, 5) * torch.tensor([0.3, 1, 2, 3, 0.5])
    ffn.update_grid(x)
    edges = edges_of(ffn.layers[0])
    points = occurring_points(x)
    found, curves = components(edges, points), all_curves(edges, points)
    sizes = np.linalg.svd(curves - curves.mean(0), compute_uv=False) ** 2
    np.testing.assert_allclose(found.explained, (sizes / sizes.sum())[: len(found.explained)], atol=1e-6)
    assert found.bound > 9  # of all inputs' functions together


def test_edges_that_are_all_alike_have_one_shape_and_zeros_have_none():
    torch.manual_seed(0)
    layer = ChebyKANLinear(4, 6, 4)
    points = torch.linspace(-1, 1, 128, dtype=torch.float64)
    with torch.no_grad():
        layer.cheby_coeffs.copy_(torch.randn(5) * torch.randn(4, 6, 1))
    assert components(edges_of(layer), points).dimension == pytest.approx(1, abs=1e-6)
    with torch.no_grad():
        layer.cheby_coeffs.zero_()
    nothing = components(edges_of(layer), points)
    assert (len(nothing.explained), nothing.dimension) == (0, 0.0)
