"""A linear layer that takes, for each row, the weights of one of several experts: y_n = W_{e(n)} x_n.

Rows of one expert are put side by side, so that it costs one matrix product for each expert and no more
multiply-adds than a plain layer of one expert. How many rows each has is read on the host: for CPUs.

Shapes: N rows, E experts, I in_features, O out_features.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ffn_variants.kernels.operations import autocast_dtype


def expert_linear(x: Tensor, weight: Tensor, expert: Tensor) -> Tensor:
    """Apply the layer; under autocast in its dtype. It cannot be differentiated twice.

    Not for graphs of ``torch.compile``: the number of rows of an expert is no shape of one.

    Args:
        x: (N, I) inputs.
        weight: (E, O, I).
        expert: (N,) number of the expert of each row.

    Returns:
        (N, O) in the dtype of the products.
    """
    dtype = autocast_dtype(x)
    x, weight = x.to(dtype or x.dtype), weight.to(dtype or weight.dtype)
    return _ExpertLinear.apply(x, weight, expert)


class _ExpertLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, expert: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, expert)
        return _values(x, weight, expert)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:  # type: ignore[bad-override]
        return *_gradients(grads[0], *ctx.saved_tensors), None


def _values(x: Tensor, weight: Tensor, expert: Tensor) -> Tensor:
    order, parts = _parts(expert, len(weight))
    sorted_x, out = x[order], x.new_empty(len(x), weight.shape[1])
    sorted_out = torch.empty_like(out)
    for number, part in parts:
        torch.mm(sorted_x[part], weight[number].t(), out=sorted_out[part])
    out[order] = sorted_out
    return out


def _gradients(grad: Tensor, x: Tensor, weight: Tensor, expert: Tensor) -> tuple[Tensor, Tensor]:
    order, parts = _parts(expert, len(weight))
    sorted_grad, sorted_x = grad[order], x[order]
    grad_x, grad_weight = x.new_empty(x.shape), weight.new_zeros(weight.shape)
    sorted_grad_x = torch.empty_like(grad_x)
    for number, part in parts:
        torch.mm(sorted_grad[part], weight[number], out=sorted_grad_x[part])
        torch.mm(sorted_grad[part].t(), sorted_x[part], out=grad_weight[number])
    grad_x[order] = sorted_grad_x
    return grad_x, grad_weight


def _parts(expert: Tensor, num_experts: int) -> tuple[Tensor, Iterator[tuple[int, slice]]]:
    """An order of the rows by expert, and each expert that has rows with its part of them."""
    # Experts 2, 0, 2 of three: counts 1, 0, 2 and ends 1, 1, 3, so expert 0 has the sorted rows 0:1 and 2 has
    # 1:3.
    counts = torch.bincount(expert, minlength=num_experts).tolist()
    ends = [sum(counts[: number + 1]) for number in range(num_experts)]
    parts = ((number, slice(end - counts[number], end)) for number, end in enumerate(ends) if counts[number])
    return expert.argsort(stable=True), parts
