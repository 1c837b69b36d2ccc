"""The memory against a search over all pairs of half-keys in float64, and its counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax

from ffn_variants import FFN_VARIANTS, build_ffn, matching_width

D = 16


def formula(memory, x):
    """Score every key of every head, and take the best."""
    weight, bias, keys, values = (
        t.detach().double().numpy()
        for t in (memory.query.weight, memory.query.bias, memory.keys, memory.values)
    )
    heads, _, _, channels = keys.shape
    top = memory.sizes.values_read
    y = np.zeros_like(x)
    for row, token in enumerate(x):
        query = (weight @ token + bias).reshape(heads, 2, channels)
        for head in range(heads):
            halves = keys[head, 0] @ query[head, 0], keys[head, 1] @ query[head, 1]
            scores = (halves[0][:, None] + halves[1]).ravel()
            best = np.argsort(-scores)[:top]
            y[row] += softmax(scores[best]) @ values[best % len(values)]
    return y


@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-12), ("float32", 1e-6), ("bfloat16", 1e-2)])
@pytest.mark.parametrize(
    ("size", "options"),
    [(49, {}), (50, {}), (100, {"top_k": 1}), (30, {"heads": 3, "top_k": 4}), (2, {}), (1, {})],
)
def test_value(size, options, dtype, limit, error):
    torch.manual_seed(0)
    memory = build_ffn("product-key-memory", D, size, **options).to(getattr(torch, dtype))
    x = torch.randn(40, D).to(getattr(torch, dtype))
    y = memory(x)
    assert y.dtype == x.dtype
    assert error(y, formula(memory, x.double().numpy())) < limit


def test_under_autocast_the_places_are_those_of_float32(error):
    torch.manual_seed(2)
    memory, x = build_ffn("product-key-memory", D, 400), torch.randn(300, D)
    with torch.autocast("cpu", torch.bfloat16):
        y = memory(x)
    assert error(y, memory(x).detach()) < 1e-2


@pytest.mark.parametrize(("size", "half_keys"), [(1, 1), (2, 2), (4, 2), (5, 3), (1024, 32), (1025, 33)])
def test_half_keys_are_the_square_root_of_the_values_and_all_values_can_be_read(size, half_keys):
    memory = build_ffn("product-key-memory", D, size)
    assert memory.keys.shape == (4, 2, half_keys, 2)
    assert memory.values.shape == (size, D)
    assert half_keys**2 >= size


def test_counts_are_of_what_a_token_meets():
    spec = FFN_VARIANTS["product-key-memory"]
    assert spec.num_params(64, 1000) == 64 * 64 + 64 + 64 * 32 + 1000 * 64
    active = 64 * 64 + 64 + 64 * 32 + 4 * 8 * 64
    assert spec.num_active_params(64, 1000) == active
    assert spec.flops_per_token(64, 1000) == 2 * (active - 64)


def test_total_and_active_parameters_can_both_be_matched():
    name, target = "product-key-memory", FFN_VARIANTS["gelu"].num_params(64, 128)
    spec = FFN_VARIANTS[name]
    total, active = (matching_width(name, None, 64, 128, budget) for budget in ("params", "active-params"))
    assert spec.num_params(64, total) == pytest.approx(target, rel=0.01)
    assert spec.num_active_params(64, active) == pytest.approx(target, rel=0.01)
    assert spec.num_params(64, active) > 50 * target


def test_keys_and_values_start_as_those_of_the_paper():
    torch.manual_seed(3)
    memory = build_ffn("product-key-memory", 64, 4000)
    assert memory.values.std().item() == pytest.approx(1 / 8, rel=0.01)
    assert memory.keys.abs().max().item() == pytest.approx(8**-0.5, rel=0.01)
