"""Importance of edges against each edge drawn out by itself in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ffn_variants import FFN_VARIANTS, build_ffn
from ffn_variants.variants.series_kan import ChebyKANLinear
from inside.ffn.functions import edge_layers, edges_of
from inside.ffn.measure import carried_shares, share_needed, variances, weakest


def drawn_out(edges, x: torch.Tensor) -> np.ndarray:
    """(N, O, I), the outputs of every edge."""
    return np.einsum("nki,oki->noi", edges.features(x).double().numpy(), edges.weight.double().numpy())


@pytest.mark.parametrize("name", [name for name, spec in FFN_VARIANTS.items() if spec.kind == "block"])
@torch.no_grad()
def test_variances_are_those_of_edges_drawn_out(name):
    torch.manual_seed(1)
    for layer in edge_layers(build_ffn(name, 8, 16)):
        edges = edges_of(layer)
        x = 1.3 * torch.randn(1300, edges.weight.shape[2]) + 0.4  # more than two parts of rows
        np.testing.assert_allclose(variances(edges, x), drawn_out(edges, x).var(0), rtol=1e-5, atol=1e-12)


def test_weights_of_zero_have_no_importance():
    linear = nn.Linear(6, 4)
    with torch.no_grad():
        linear.weight[0], linear.weight[1:, 2] = 0, 0
        variance = variances(edges_of(linear), torch.randn(400, 6))
    assert torch.equal(variance == 0, linear.weight == 0)


def test_what_the_most_important_edges_carry():
    carried = carried_shares(torch.tensor([[1.0, 5.0], [4.0, 0.0]]))
    torch.testing.assert_close(carried, torch.tensor([0, 0.5, 0.9, 1, 1]))
    assert share_needed(carried) == 0.5
    assert share_needed(carried_shares(torch.zeros(2, 5))) == pytest.approx(0.9)  # all alike, so nine of ten


@torch.no_grad()
def test_a_drawn_edge_is_what_the_layer_adds_for_its_input():
    torch.manual_seed(0)
    layer, points = ChebyKANLinear(3, 4, 5), torch.randn(20, 3)
    drawn = edges_of(layer).curves(torch.tensor([2, 0]), torch.tensor([1, 2]), points)
    for curve, output, source in ((drawn[0], 2, 1), (drawn[1], 0, 2)):
        alone = torch.zeros(20, 3)
        alone[:, source] = points[:, source]
        added = layer(alone)[:, output] - layer(torch.zeros(1, 3))[:, output]
        torch.testing.assert_close(curve - curve[0], added - added[0])


def test_the_weakest_go_first_and_larger_shares_hold_smaller_ones():
    importance = torch.randperm(60).view(5, 12).double()
    before = torch.zeros(5, 12, dtype=torch.bool)
    for share in (0.0, 0.1, 0.25, 0.5, 0.99, 1.0):
        removed = weakest(importance, share)
        assert torch.equal(removed, importance < round(share * 60))
        assert (removed | ~before).all()
        before = removed
    assert int(weakest(torch.zeros(4, 4), 0.5).sum()) == 8  # ties are broken, not all taken
