"""Activity and nonlinearity of edges against each edge drawn out by itself in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from eval.inspection.edge_statistics import edge_statistics
from ffn_variants import FFN_VARIANTS, build_ffn
from ffn_variants.inside.edges import edge_layers, edges_of


def drawn_out(edges, x: torch.Tensor) -> np.ndarray:
    """(N, O, I), what every edge gives."""
    return np.einsum("nki,oki->noi", edges.features(x).double().numpy(), edges.weight.double().numpy())


@pytest.mark.parametrize("name", [name for name, spec in FFN_VARIANTS.items() if spec.kind == "block"])
@torch.no_grad()
def test_statistics_are_those_of_edges_drawn_out(name):
    torch.manual_seed(1)
    ffn = build_ffn(name, 8, 16)
    for _, layer in edge_layers(ffn):
        edges = edges_of(layer)
        x = 1.3 * torch.randn(1300, edges.weight.shape[2]) + 0.4  # more than two parts of rows
        found = edge_statistics(edges, x)
        given, z = drawn_out(edges, x), edges.coordinates(x).detach().double().numpy()
        np.testing.assert_allclose(found.activity, given.std(0), rtol=1e-5, atol=1e-9)
        r = np.array([[np.corrcoef(given[:, o, i], z[:, i])[0, 1] for i in range(z.shape[1])]
                      for o in range(given.shape[1])])  # fmt: skip
        np.testing.assert_allclose(found.nonlinearity, 1 - r**2, atol=1e-6)
        weights = given.var(0)
        assert found.mean_nonlinearity == pytest.approx(np.average(1 - r**2, weights=weights), abs=1e-6)
        assert found.dead == pytest.approx((weights < 0.01 * weights.mean()).mean())
        shares = np.sort(weights.ravel())[::-1].cumsum() / weights.sum()
        assert found.needed == pytest.approx((np.argmax(shares >= 0.9) + 1) / weights.size)
        if edges.limits is not None:
            low, high = (end.detach().numpy() for end in edges.limits)
            assert found.outside == pytest.approx(((z < low) | (z > high)).mean())


def test_planted_edges_are_found_dead_or_straight():
    linear = nn.Linear(6, 4)
    with torch.no_grad():
        linear.weight.uniform_(1, 2)
        linear.weight[0], linear.weight[1:, 2] = 0, 0
    found = edge_statistics(edges_of(linear), torch.randn(400, 6))
    assert torch.equal(found.activity == 0, linear.weight == 0)
    assert found.nonlinearity.max() < 1e-9
    assert found.dead == pytest.approx((linear.weight == 0).float().mean().item())
    with torch.no_grad():
        linear.weight.zero_()
    nothing = edge_statistics(edges_of(linear), torch.randn(400, 6))
    assert (nothing.dead, nothing.needed, nothing.mean_nonlinearity) == (1.0, 0.0, 0.0)
