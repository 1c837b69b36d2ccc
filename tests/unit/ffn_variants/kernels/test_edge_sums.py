"""Sums over edges: blocks, dtypes, and what a graph is told of the operations."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_map_only

from ffn_variants.kernels import elementwise as kernel
from ffn_variants.kernels.elementwise import edge_sums
from ffn_variants.kernels.operations import name_of


def waves(x, weight, phase):
    return (weight * (x.unsqueeze(1) + phase).sin()).sum(-1)


NAME = name_of(waves)


def outputs_and_gradients(x, *parameters):
    x, *parameters = (t.clone().requires_grad_() for t in (x, *parameters))
    y = edge_sums(waves, x, *parameters)
    return [y, *torch.autograd.grad(y.square().sum(), [x, *parameters])]


@pytest.mark.parametrize("shape", [(3,), (0, 3), (7, 3), (2, 5, 3)])
def test_any_number_of_rows_in_any_number_of_blocks(shape, monkeypatch):
    torch.manual_seed(0)
    x, weight, phase = (torch.randn(s, dtype=torch.float64) for s in (shape, (4, 3), (4, 3)))
    whole = outputs_and_gradients(x, weight, phase)
    assert whole[0].shape == (*shape[:-1], 4)
    torch.testing.assert_close(whole[0], (weight * (x.unsqueeze(-2) + phase).sin()).sum(-1))
    for numbers in (1, 24):  # a row in each block; two
        monkeypatch.setattr(kernel, "EDGE_BLOCK_NUMBERS", {"cpu": numbers})
        for a, b in zip(outputs_and_gradients(x, weight, phase), whole, strict=True):
            torch.testing.assert_close(a, b)


def test_bf16_sums_over_blocks_are_in_float32(monkeypatch, error):
    torch.manual_seed(1)
    tensors = [torch.randn(s).bfloat16() for s in ((500, 3), (4, 3), (4, 3))]
    exact = outputs_and_gradients(*(t.double() for t in tensors))
    monkeypatch.setattr(kernel, "EDGE_BLOCK_NUMBERS", {"cpu": 12})
    for a, b in zip(outputs_and_gradients(*tensors), exact, strict=True):
        assert a.dtype == torch.bfloat16
        assert error(a, b) < 1e-2


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_the_operation_agrees_with_finite_differences(rows):
    torch.manual_seed(2)
    shapes = ((rows, 3), (2, 3), (2, 3))
    x, weight, phase = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes)
    assert torch.autograd.gradcheck(
        lambda x, *p: kernel._operation(x, list(p), NAME, "", True), (x, weight, phase)
    )


def shapes(results):
    tensors = results if isinstance(results, list | tuple) else [results]
    return [(t.shape, t.stride(), t.dtype) for t in tensors]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_graph_is_told_the_shapes_strides_and_dtypes_that_operations_give(dtype):
    x, grad, weight = (
        torch.randn(columns, rows, dtype=dtype).t() for rows, columns in ((7, 3), (7, 2), (2, 3))
    )
    for operation, *arguments in (
        (kernel._operation, x, [weight, weight], NAME, "", True),
        (kernel._backward_operation, grad, x, [weight, weight], NAME, "", True),
    ):
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fake = operation(*tree_map_only(torch.Tensor, mode.from_tensor, arguments))
        assert shapes(fake) == shapes(operation(*arguments))
