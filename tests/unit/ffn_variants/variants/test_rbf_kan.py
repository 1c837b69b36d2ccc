"""What is told of FastKAN layers alone; test_kan_bases.py has what every basis keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ffn_variants.variants.bump_kan import GaussianBasis, RBFKANLinear


def test_bumps_are_one_at_their_centres_and_zero_far_out():
    x = torch.linspace(-2, 2, 8).unsqueeze(1)
    bumps = GaussianBasis(8)(x)[..., 0]
    torch.testing.assert_close(bumps.diagonal(), torch.ones(8))
    neighbours = torch.full((7,), float(np.exp(-1)))
    torch.testing.assert_close(bumps.diagonal(1), neighbours, atol=1e-6, rtol=0)
    far = torch.tensor([[1e30], [-1e30], [torch.inf], [-torch.inf]])
    assert not GaussianBasis(8)(far).any()


@pytest.mark.parametrize(("width", "grid"), [(64, 8), (512, 8), (256, 2), (256, 20)])
def test_initial_curves_add_up_to_the_chosen_size(width, grid):
    torch.manual_seed(4)
    layer = RBFKANLinear(width, 400, grid, init_scale=0.3)
    with torch.no_grad():
        curves = layer(x := torch.randn(400, width)) - layer.base_linear(torch.nn.functional.silu(x))
    assert abs(curves.std().item() / 0.3 - 1) < 0.05
