"""Attention of one token of each text, against torch's own attention of all of them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from eval.memory import attend_with_one_query


def test_one_query_attends_as_in_a_whole_layer() -> None:
    torch.manual_seed(0)
    tokens, heads, at = torch.randn(3, 7, 16), 4, torch.tensor([0, 4, 6])
    project, key, value = (nn.Linear(16, 16) for _ in range(3))
    for visible in (None, torch.arange(7) <= at[:, None]):
        q, k, v = (
            linear(tokens).unflatten(-1, (heads, -1)).movedim(1, 2) for linear in (project, key, value)
        )
        mask = None if visible is None else visible[:, None, None]
        expected = scaled_dot_product_attention(q, k, v, attn_mask=mask)[torch.arange(3), :, at]
        query = project(tokens[torch.arange(3), at]) * 4**-0.5
        found, weight = attend_with_one_query(query, tokens, key, value, heads, visible)
        torch.testing.assert_close(found + weight * value.bias.unflatten(0, (heads, -1)), expected)
        torch.testing.assert_close(weight, torch.ones(3, heads, 1))
