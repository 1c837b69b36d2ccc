"""What is captured, and what fitting reaches, against plain loops and numpy's least squares."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from base.families import FAMILIES
from ffn_variants import build_ffn
from ffn_variants.swap.exchange import layers_of
from ffn_variants.swap.fit import captured, fit, relative_error
from ffn_variants.swap.pieces import Batcher

HOW = {"steps": 1500, "learning_rate": 0.02, "batch_tokens": 256, "seed": 3}


def test_a_linear_map_reaches_the_error_of_least_squares():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 6))
    y = np.sin(x @ rng.normal(size=(6, 4))) + 0.3 * rng.normal(size=(2000, 4))
    columns = np.hstack([x, np.ones((len(x), 1))])
    solution = np.linalg.lstsq(columns, y, rcond=None)[0]
    wanted = ((columns @ solution - y) ** 2).sum() / ((y - y.mean(0)) ** 2).sum()
    linear = nn.Linear(6, 4)
    inputs, outputs = (torch.from_numpy(a).float() for a in (x, y))
    fit([linear], inputs, outputs, **HOW)
    assert wanted <= relative_error([linear], inputs, outputs) * (1 + 1e-6)
    assert relative_error([linear], inputs, outputs) < wanted * 1.01
    np.testing.assert_allclose(linear.weight.detach().numpy(), solution[:6].T, atol=0.03)


def test_a_planted_kan_is_found_by_a_kan_of_another_seed():
    torch.manual_seed(1)
    planted = build_ffn("kan", 4, 3)
    x = torch.randn(4000, 4) * 0.5
    with torch.no_grad():
        y = planted(x)
    torch.manual_seed(2)
    other = build_ffn("kan", 4, 12)
    unfitted = relative_error([other], x, y)
    fit([other], x, y, **HOW | {"steps": 200})
    assert relative_error([other], x, y) < 0.02 < 0.5 < unfitted


def test_the_relative_error_of_the_mean_is_one():
    class Mean(nn.Module):
        def forward(self, x):
            return y.mean(0).expand(len(x), -1)

    y = torch.randn(9000, 3) * torch.tensor([1.0, 5.0, 0.1]) + 4
    assert relative_error([Mean()], torch.zeros(9000, 2), y) == pytest.approx(1, rel=1e-5)
    expected = float(((y - 1) ** 2).sum() / ((y - y.mean(0)) ** 2).sum())
    assert relative_error([nn.Identity()], torch.ones_like(y), y) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_captured_are_inputs_and_outputs_of_every_real_token(family, ours, tokenizer):
    """By the stock layer's own modules, piece by piece without padding."""
    model = ours(family)
    rng = np.random.default_rng(4)
    pieces = [rng.integers(5, 200, size) for size in (9, 30, 17)]
    batcher = Batcher(FAMILIES[family].objective, tokenizer)
    for number, (name, layer) in enumerate(layers_of(model).items()):
        batch = next(batcher.batches(pieces, 3))
        x, y = captured(model, number, [batch])
        if family in ("gpt_neo", "llama"):
            assert len(x) == 56
            expected = layer.mlp(x)
        elif family == "roberta":
            assert len(x) == 56
            expected = layer.output.dense(layer.intermediate(x))
        else:
            mask = "decoder_attention_mask" if name.startswith("decoder") else "attention_mask"
            assert len(x) == int(batch[mask].sum())
            expected = layer.DenseReluDense(x)
        torch.testing.assert_close(y, expected.detach(), atol=1e-5, rtol=1e-4)
    if family == "gpt_neo":  # a token alone, of the first layer: no padding has got into what it sees
        alone, _ = captured(model, 0, batcher.batches(pieces[:1], 1))
        torch.testing.assert_close(captured(model, 0, [batch])[0][:9], alone, atol=1e-5, rtol=1e-4)
