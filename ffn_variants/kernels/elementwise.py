"""Elementwise functions with learnable parameters, in one pass over the data each way.

Autograd would keep every intermediate value of them. Here the backward pass keeps x alone and computes the
rest again, in blocks of rows that stay in a processor's cache while the parameters' gradients are summed.

Shapes: N rows, C channels, E channels of the result, which are most often as many.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ffn_variants.kernels.compilation import (
    compiled,
    compiled_kernels_in_use,
    in_compiled_graph,
    needs_plain_torch,
)
from ffn_variants.kernels.naming import name_of, named

Function = Callable[..., Tensor]
"""``function(x, *parameters)``: (N, C) to (N, E), each row on its own; a function of a module."""

Gradients = Callable[..., tuple[Tensor, ...]]
"""``gradients(grad, x, *parameters)``: those of x and of each parameter, from the (N, E) of the result."""

BLOCK_NUMBERS = {"cpu": 2**17}
"""Values of x in a block; a GPU sums over all rows at once."""


def elementwise(
    function: Function, x: Tensor, *parameters: Tensor, gradients: Gradients | None = None
) -> Tensor:
    """Apply a function; all is computed in float32 at least. It cannot be differentiated twice.

    In somebody's ``torch.compile`` it is one operation, ``ffn_variants::elementwise``, like ``basis_linear``.

    Args:
        function: What to compute.
        x: (..., C) inputs.
        *parameters: Learnable tensors of any shape.
        gradients: Its gradients, where they are cheaper than what torch.func makes of ``function``.

    Returns:
        (..., E) in the dtype of x.
    """
    rows = x.reshape(-1, x.shape[-1])
    if needs_plain_torch():
        out = _rounded(function, rows, *parameters)
    elif torch.compiler.is_compiling():
        out = _in_a_graph(function, gradients, rows, parameters)
    else:
        out = _Elementwise.apply(function, gradients, rows, *parameters)
    return out.reshape(*x.shape[:-1], out.shape[-1])  # type: ignore[union-attr]


def _in_a_graph(
    function: Function, gradients: Gradients | None, x: Tensor, parameters: Sequence[Tensor]
) -> Tensor:
    names = name_of(function), "" if gradients is None else name_of(gradients)
    if names[0] is not None and names[1] is not None:
        return _operation(x, list(parameters), *names)
    return _rounded(function, x, *parameters)


class _Elementwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, function: Function, gradients: Gradients | None, x: Tensor, *parameters: Tensor
    ) -> Tensor:
        forward, ctx.pull_back = _kernels(function, gradients)
        ctx.save_for_backward(x, *parameters)
        return _values(forward, x, parameters)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:  # type: ignore[bad-override]
        x, *parameters = ctx.saved_tensors
        return None, None, *_sums(ctx.pull_back, grads[0], x, parameters)


# The same as an operation of a graph, which neither Dynamo nor Inductor looks into.


@torch.library.custom_op(
    "ffn_variants::elementwise",
    mutates_args=(),
    schema="(Tensor x, Tensor[] parameters, str function, str gradients) -> Tensor",
)
def _operation(x: Tensor, parameters: list[Tensor], function: str, gradients: str) -> Tensor:
    forward, _ = _named_kernels(function, gradients)
    with in_compiled_graph():
        return _values(forward, x.contiguous(), parameters)


@_operation.register_fake
def _(x: Tensor, parameters: list[Tensor], function: str, gradients: str) -> Tensor:
    channels = named(function)(x[:1], *parameters).shape[1]
    return x.new_empty(x.shape[0], channels)


@torch.library.custom_op(
    "ffn_variants::elementwise_backward",
    mutates_args=(),
    schema="(Tensor grad, Tensor x, Tensor[] parameters, str function, str gradients) -> Tensor[]",
)
def _backward_operation(
    grad: Tensor, x: Tensor, parameters: list[Tensor], function: str, gradients: str
) -> list[Tensor]:
    _, pull_back = _named_kernels(function, gradients)
    with in_compiled_graph():
        return _sums(pull_back, grad, x.contiguous(), parameters)


@_backward_operation.register_fake
def _(grad: Tensor, x: Tensor, parameters: list[Tensor], *_: Any) -> list[Tensor]:
    return [torch.empty_like(t, memory_format=torch.contiguous_format) for t in (x, *parameters)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, parameters, ctx.function, ctx.gradients = inputs
    ctx.save_for_backward(x, *parameters)


def _backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, *parameters = ctx.saved_tensors
    grad_x, *sums = _backward_operation(grad, x, parameters, ctx.function, ctx.gradients)
    return grad_x, sums, None, None


_operation.register_autograd(_backward, setup_context=_keep)


def _values(forward: Callable[..., Tensor], x: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    if compiled_kernels_in_use():
        return forward(x, *parameters)
    # Operation by operation, it is the temporaries that want to stay in the cache.
    out = x.new_empty(len(x), forward(x[:1], *parameters).shape[1])
    for block in _blocks(x):
        out[block] = forward(x[block], *parameters)
    return out


def _sums(
    pull_back: Callable[..., tuple[Tensor, ...]], grad: Tensor, x: Tensor, parameters: Sequence[Tensor]
) -> list[Tensor]:
    """The gradients of x and of the parameters."""
    grad = grad.contiguous()  # that of a sum is expanded, and would be compiled for anew
    grad_x = torch.empty_like(x)
    sums = [
        torch.zeros_like(p, dtype=_exact(p.dtype), memory_format=torch.contiguous_format) for p in parameters
    ]
    for block in _blocks(x):
        parts = pull_back(grad[block], x[block], grad_x[block], *parameters)
        for total, part in zip(sums, parts, strict=True):
            total += part
    return [grad_x, *(total.to(p.dtype) for total, p in zip(sums, parameters, strict=True))]


def _named_kernels(function: str, gradients: str) -> Any:
    return _kernels(named(function), named(gradients) if gradients else None)


@functools.cache
def _kernels(
    function: Function, gradients: Gradients | None
) -> tuple[Callable[..., Tensor], Callable[..., tuple[Tensor, ...]]]:
    """The function; and the gradients of x, written where it is told, and of the parameters, unrounded."""

    def forward(x: Tensor, *parameters: Tensor) -> Tensor:
        return _rounded(function, x, *parameters)

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


def _rounded(function: Function, x: Tensor, *parameters: Tensor) -> Tensor:
    return function(*(t.to(_exact(t.dtype)) for t in (x, *parameters))).to(x.dtype)


def _exact(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _blocks(x: Tensor) -> Iterator[slice]:
    length = max(1, BLOCK_NUMBERS.get(x.device.type, x.numel()) // max(1, x.shape[1]))
    return (slice(start, start + length) for start in range(0, len(x), length))
