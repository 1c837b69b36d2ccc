"""Dropout on a CPU: what is dropped, how often, and what the backward pass does with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from ffn_variants import build_model
from ffn_variants.models.faster_layers import Dropout, dropout, replace_dropouts

P = 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("p", [P, 0.5])
def test_values_are_dropped_or_scaled_and_gradients_too(dtype, p):
    torch.manual_seed(0)
    x = torch.randn(37, 11, dtype=dtype).abs().add(0.1).requires_grad_()
    out = dropout(x, p)
    out.backward(torch.ones_like(out))
    kept = out != 0
    scaled = x.detach().double() / (1 - p)
    torch.testing.assert_close(out.double(), torch.where(kept, scaled, 0), rtol=1e-2, atol=0)
    expected = torch.where(kept, 1 / (1 - p), 0.0)
    torch.testing.assert_close(x.grad.float(), expected, rtol=1e-2, atol=0)
    assert out.dtype == x.grad.dtype == dtype


def test_the_share_dropped_is_that_asked_for_at_each_of_four_places():
    """One number decides four values: each place must drop as often, and without regard to its neighbours."""
    torch.manual_seed(1)
    dropped = (dropout(torch.ones(100_000, 4), P) == 0).numpy()
    for place in range(4):
        assert stats.binomtest(int(dropped[:, place].sum()), len(dropped), P).pvalue > 1e-3
    pairs = np.corrcoef(dropped.T)[np.triu_indices(4, 1)]
    assert abs(pairs).max() < 4 / np.sqrt(len(dropped))


def test_torchs_seed_decides_the_draws():
    draws = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        draws.append(dropout(torch.ones(100), P))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_nothing_is_dropped_in_evaluation_or_at_zero():
    x = torch.ones(1000)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(0.5).eval()(x), x)


def test_every_dropout_of_a_model_is_exchanged_and_no_weight():
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 30}
    model = build_model("roberta", "gelu", intermediate_size=8, **sizes).eval()
    names, ids = list(model.state_dict()), torch.arange(4)[None]
    before = model(input_ids=ids).logits
    replace_dropouts(model)
    kinds = {type(module) for module in model.modules() if isinstance(module, nn.Dropout)}
    assert kinds == {Dropout}
    assert list(model.state_dict()) == names
    assert torch.equal(model(input_ids=ids).logits, before)  # in evaluation still
