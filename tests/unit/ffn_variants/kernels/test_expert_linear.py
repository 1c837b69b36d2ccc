"""Linear layers by expert, against a loop over rows."""

from __future__ import annotations

import pytest
import torch

from ffn_variants.kernels.expert_linear import expert_linear

EXPERTS = {
    "all used": [0, 3, 1, 1, 2, 0, 3],
    "two idle": [2, 2, 0, 2, 0, 0, 0],
    "one": [1] * 7,
    "no rows": [],
}


@pytest.mark.parametrize(
    ("name", "dtype", "limit"),
    [(name, "float64", 1e-13) for name in EXPERTS]
    + [("all used", "float32", 1e-6), ("two idle", "bfloat16", 1e-2)],
)
def test_each_row_has_the_weights_of_its_expert(name, dtype, limit, error):
    torch.manual_seed(0)
    expert = torch.tensor(EXPERTS[name], dtype=torch.int64)
    x, weight = (torch.randn(s).to(getattr(torch, dtype)) for s in ((len(expert), 3), (4, 2, 3)))
    expected = [weight[e].double() @ row.double() for e, row in zip(expert, x, strict=True)]
    y = expert_linear(x, weight, expert)
    assert y.dtype == x.dtype
    assert y.shape == (len(expert), 2)
    assert not expected or error(y, torch.stack(expected)) < limit


@pytest.mark.parametrize("name", EXPERTS)
def test_gradients_agree_with_finite_differences(name):
    torch.manual_seed(1)
    expert = torch.tensor(EXPERTS[name], dtype=torch.int64)
    x, weight = (
        torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((len(expert), 3), (4, 2, 3))
    )
    assert torch.autograd.gradcheck(lambda x, weight: expert_linear(x, weight, expert), (x, weight))


def test_autocast_decides_the_dtype_of_the_products():
    x, weight, expert = torch.randn(5, 3), torch.randn(2, 4, 3), torch.tensor([0, 1, 0, 1, 1])
    with torch.autocast("cpu", torch.bfloat16):
        y = expert_linear(x, weight, expert)
    assert torch.equal(y, expert_linear(x.bfloat16(), weight.bfloat16(), expert))
