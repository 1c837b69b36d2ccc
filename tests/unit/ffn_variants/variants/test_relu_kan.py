"""What is told of ReLU-KAN layers alone; test_kan_bases.py has what every basis keeps."""

from __future__ import annotations

import pytest
import torch

from ffn_variants import build_ffn


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
