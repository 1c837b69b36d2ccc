"""What is told of one kind of bumps alone; test_kan_bases.py has what every basis keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ffn_variants import build_ffn
from ffn_variants.variants.bump_kan import GaussianBasis, RBFKANLinear


def test_bumps_are_one_in_their_middles_and_cover_the_grid():
    layer = build_ffn("relu-kan", 1, 2).layers[0]
    middles = ((layer.left_knots + layer.right_knots) / 2)[:, 0]
    values = layer.bumps(middles[:, None], layer.left_knots, layer.right_knots)[..., 0]
    torch.testing.assert_close(values.diagonal(), torch.ones(8))
    ends = layer.left_knots[0, 0].item(), layer.right_knots[-1, 0].item()
    assert ends == pytest.approx((-2 - 3 * 0.8, 2 + 3 * 0.8))


def test_layers_start_with_the_deviation_that_is_asked_for():
    torch.manual_seed(0)
    ffn = build_ffn("relu-kan", 64, 128, init_scale=0.3)
    for layer, inputs, deviation in zip(ffn.layers, (64, 128), (1.0, 0.3), strict=True):
        assert layer(torch.randn(500, inputs)).std().item() == pytest.approx(deviation, rel=0.1)


def test_gaussian_bumps_are_one_at_their_centres_and_zero_far_out():
    x = torch.linspace(-2, 2, 8).unsqueeze(1)
    bumps = GaussianBasis(8)(x)[..., 0]
    torch.testing.assert_close(bumps.diagonal(), torch.ones(8))
    neighbours = torch.full((7,), float(np.exp(-1)))
    torch.testing.assert_close(bumps.diagonal(1), neighbours, atol=1e-6, rtol=0)
    far = torch.tensor([[1e30], [-1e30], [torch.inf], [-torch.inf]])
    assert not GaussianBasis(8)(far).any()


@pytest.mark.parametrize(("width", "grid"), [(512, 8), (256, 2), (64, 20)])
def test_initial_curves_add_up_to_the_chosen_size(width, grid):
    torch.manual_seed(4)
    layer = RBFKANLinear(width, 400, grid, init_scale=0.3)
    with torch.no_grad():
        curves = layer(x := torch.randn(400, width)) - layer.base_linear(torch.nn.functional.silu(x))
    assert abs(curves.std().item() / 0.3 - 1) < 0.05
