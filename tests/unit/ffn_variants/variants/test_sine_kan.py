"""What is told of SineKAN layers alone; test_kan_bases.py has what every basis keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ffn_variants import build_ffn
from ffn_variants.variants.series_kan import SineKANLinear


@pytest.mark.parametrize("grid", [1, 5, 8])
@pytest.mark.parametrize("inputs", [1, 7])
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
