"""Elementwise functions with learnable parameters, in one pass over the data each way.

Autograd would keep every intermediate value of them. Here the backward pass keeps x alone and computes the
rest again, in blocks of rows that stay in a processor's cache while the parameters' gradients are summed.

Shapes: N rows, C channels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ffn_variants.kernels.compilation import compiled, compiled_kernels_in_use

Function = Callable[..., Tensor]
"""``function(x, *parameters)``: (N, C) to (N, C), each row on its own; a function of a module."""

Gradients = Callable[..., tuple[Tensor, ...]]
"""``gradients(grad, x, *parameters)``: those of x and of each parameter, from the (N, C) of the result."""

BLOCK_NUMBERS = {"cpu": 2**17}
"""Values of x in a block; a GPU sums over all rows at once."""


def elementwise(
    function: Function, x: Tensor, *parameters: Tensor, gradients: Gradients | None = None
) -> Tensor:
    """Apply a function; all is computed in float32 at least. It cannot be differentiated twice.

    Args:
        function: What to compute.
        x: (..., C) inputs.
        *parameters: Learnable tensors of any shape.
        gradients: Its gradients, where they are cheaper than what torch.func makes of ``function``.

    Returns:
        (..., C) in the dtype of x.
    """
    out = _Elementwise.apply(function, gradients, x.reshape(-1, x.shape[-1]), *parameters)
    return out.view_as(x)  # type: ignore[union-attr]


class _Elementwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, function: Function, gradients: Gradients | None, x: Tensor, *parameters: Tensor
    ) -> Tensor:
        forward, ctx.pull_back = _kernels(function, gradients)
        ctx.save_for_backward(x, *parameters)
        if compiled_kernels_in_use():
            return forward(x, *parameters)
        # Operation by operation, it is the temporaries that want to stay in the cache.
        out = torch.empty_like(x)
        for block in _blocks(x):
            out[block] = forward(x[block], *parameters)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:  # type: ignore[bad-override]
        x, *parameters = ctx.saved_tensors
        grad = grads[0].contiguous()  # that of a sum is expanded, and would be compiled for anew
        grad_x = torch.empty_like(x)
        sums = [torch.zeros_like(p, dtype=_exact(p.dtype)) for p in parameters]
        for block in _blocks(x):
            parts = ctx.pull_back(grad[block], x[block], grad_x[block], *parameters)
            for total, part in zip(sums, parts, strict=True):
                total += part
        return None, None, grad_x, *(total.to(p.dtype) for total, p in zip(sums, parameters, strict=True))


@functools.cache
def _kernels(
    function: Function, gradients: Gradients | None
) -> tuple[Callable[..., Tensor], Callable[..., tuple[Tensor, ...]]]:
    """The function; and the gradients of x, written where it is told, and of the parameters, unrounded."""

    def forward(x: Tensor, *parameters: Tensor) -> Tensor:
        return function(*(t.to(_exact(t.dtype)) for t in (x, *parameters))).to(x.dtype)

    def pull_back(grad: Tensor, x: Tensor, grad_x: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        inputs = tuple(t.to(_exact(t.dtype)) for t in (x, *parameters))
        exact_grad = grad.to(_exact(grad.dtype))
        if gradients is None:
            _, gradients_of = torch.func.vjp(function, *inputs)  # type: ignore[bad-unpacking]
            first, *parts = gradients_of(exact_grad)
        else:
            first, *parts = gradients(exact_grad, *inputs)
        grad_x.copy_(first)
        return tuple(parts)

    return compiled(forward), compiled(pull_back)


def _exact(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _blocks(x: Tensor) -> Iterator[slice]:
    length = max(1, BLOCK_NUMBERS.get(x.device.type, x.numel()) // max(1, x.shape[1]))
    return (slice(start, start + length) for start in range(0, len(x), length))
