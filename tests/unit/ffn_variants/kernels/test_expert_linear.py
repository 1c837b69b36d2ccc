"""Linear layers by expert, against a loop over rows."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_map_only

from ffn_variants.kernels import expert_linear as kernel
from ffn_variants.kernels.expert_linear import expert_linear

EXPERTS = {
    "all used": [0, 3, 1, 1, 2, 0, 3],
    "two idle": [2, 2, 0, 2, 0, 0, 0],
    "one": [1] * 7,
    "no rows": [],
}


@pytest.mark.parametrize("name", EXPERTS)
@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-13), ("float32", 1e-6), ("bfloat16", 1e-2)])
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
def test_gradients_agree_with_finite_differences_in_and_out_of_a_graph(name):
    torch.manual_seed(1)
    expert = torch.tensor(EXPERTS[name], dtype=torch.int64)
    x, weight = (
        torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((len(expert), 3), (4, 2, 3))
    )
    for function in (expert_linear, kernel._operation):
        assert torch.autograd.gradcheck(lambda x, weight, f=function: f(x, weight, expert), (x, weight))


def test_autocast_decides_the_dtype_of_the_products():
    x, weight, expert = torch.randn(5, 3), torch.randn(2, 4, 3), torch.tensor([0, 1, 0, 1, 1])
    with torch.autocast("cpu", torch.bfloat16):
        y = expert_linear(x, weight, expert)
    assert torch.equal(y, expert_linear(x.bfloat16(), weight.bfloat16(), expert))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_graph_is_told_the_shapes_strides_and_dtypes_that_operations_give(dtype):
    x, grad = (torch.randn(columns, 7, dtype=dtype).t() for columns in (3, 2))
    weight, expert = torch.randn(4, 3, 2, dtype=dtype).transpose(1, 2), torch.tensor(EXPERTS["two idle"])
    for operation, *arguments in (
        (kernel._operation, x, weight, expert),
        (kernel._backward_operation, grad, x, weight, expert),
    ):
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fake = operation(*tree_map_only(torch.Tensor, mode.from_tensor, arguments))
        real = operation(*arguments)
        for one, other in zip(
            *([each] if isinstance(each, torch.Tensor) else each for each in (fake, real)), strict=True
        ):
            assert (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
