"""Layers whose every edge has a function of its own: y_o = sum_i f(x_i; parameters of the edge from i to o).

There is no basis that outputs share, so nothing of it is a matrix product (see ``basis_linear`` for such).
The values on edges, as many as outputs and inputs together for each row, never exist whole: they are made and
summed in blocks of rows, and made again in the backward pass, which keeps x alone.

Shapes: N rows, I inputs, O outputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ffn_variants.kernels.compilation import compiled, in_compiled_graph, needs_plain_torch
from ffn_variants.kernels.naming import name_of, named

Function = Callable[..., Tensor]
"""``function(x, *parameters)``: (N, I) inputs and parameters (..., O, I) to (N, O), each row on its own; a
function of a module or a frozen dataclass."""

BLOCK_NUMBERS = {"cpu": 2**17, "cuda": 2**27}
"""Values on edges in a block: half a GiB on a GPU, where a layer of 512 to 1,024 channels has blocks of 64
rows or more. Each costs launches, and a pass over all parameters in the backward pass."""


def edge_sums(function: Function, x: Tensor, *parameters: Tensor) -> Tensor:
    """Apply the layer; all is computed in float32 at least. It cannot be differentiated twice.

    In somebody's ``torch.compile`` it is one operation, ``ffn_variants::edge_sums``, like ``basis_linear``.

    Args:
        function: What an output is of the inputs.
        x: (..., I) inputs.
        *parameters: Learnable tensors whose last two dimensions are (O, I).

    Returns:
        (..., O) in the dtype of x.
    """
    rows = x.reshape(-1, x.shape[-1])
    if needs_plain_torch():
        out = _exact_values(function, rows, *parameters).to(x.dtype)
    elif torch.compiler.is_compiling():
        name = name_of(function)
        assert name is not None, f"{function} must be a function of a module or a frozen dataclass"
        out = _operation(rows, list(parameters), name)
    else:
        out = _EdgeSums.apply(function, rows, *parameters)
    return out.reshape(*x.shape[:-1], parameters[0].shape[-2])  # type: ignore[union-attr]


class _EdgeSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Function, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.function = function
        ctx.save_for_backward(x, *parameters)
        return _values(function, x, parameters)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:  # type: ignore[bad-override]
        x, *parameters = ctx.saved_tensors
        return None, *_gradients(ctx.function, grads[0], x, parameters)


# The same as an operation of a graph, which neither Dynamo nor Inductor looks into.


@torch.library.custom_op(
    "ffn_variants::edge_sums",
    mutates_args=(),
    schema="(Tensor x, Tensor[] parameters, str function) -> Tensor",
)
def _operation(x: Tensor, parameters: list[Tensor], function: str) -> Tensor:
    with in_compiled_graph():
        return _values(named(function), x.contiguous(), parameters)


@_operation.register_fake
def _(x: Tensor, parameters: list[Tensor], *_: Any) -> Tensor:
    return x.new_empty(x.shape[0], parameters[0].shape[-2])


@torch.library.custom_op(
    "ffn_variants::edge_sums_backward",
    mutates_args=(),
    schema="(Tensor grad, Tensor x, Tensor[] parameters, str function) -> Tensor[]",
)
def _backward_operation(grad: Tensor, x: Tensor, parameters: list[Tensor], function: str) -> list[Tensor]:
    with in_compiled_graph():
        return _gradients(named(function), grad, x.contiguous(), parameters)


@_backward_operation.register_fake
def _(grad: Tensor, x: Tensor, parameters: list[Tensor], *_: Any) -> list[Tensor]:
    return [torch.empty_like(t, memory_format=torch.contiguous_format) for t in (x, *parameters)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, parameters, ctx.function = inputs
    ctx.save_for_backward(x, *parameters)


def _backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, *parameters = ctx.saved_tensors
    grad_x, *sums = _backward_operation(grad, x, parameters, ctx.function)
    return grad_x, sums, None


_operation.register_autograd(_backward, setup_context=_keep)


def _values(function: Function, x: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    forward, _ = _kernels(function)
    out = x.new_empty(len(x), parameters[0].shape[-2])
    for block in _blocks(x, parameters):
        forward(x[block], out[block], *parameters)
    return out


def _gradients(function: Function, grad: Tensor, x: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of x and of the parameters."""
    _, pull_back = _kernels(function)
    grad = grad.contiguous()  # that of a sum is expanded, and would be compiled for anew
    grad_x = torch.empty_like(x, memory_format=torch.contiguous_format)
    sums = [
        torch.zeros_like(p, dtype=_exact(p.dtype), memory_format=torch.contiguous_format) for p in parameters
    ]
    for block in _blocks(x, parameters):
        parts = pull_back(grad[block], x[block], grad_x[block], *parameters)
        for total, part in zip(sums, parts, strict=True):
            total += part
    return [grad_x, *(total.to(p.dtype) for total, p in zip(sums, parameters, strict=True))]


@functools.cache
def _kernels(function: Function) -> tuple[Callable[..., None], Callable[..., tuple[Tensor, ...]]]:
    """The function, and the gradients: of x, both written where they are told, and of the parameters."""

    def forward(x: Tensor, out: Tensor, *parameters: Tensor) -> None:
        out.copy_(_exact_values(function, x, *parameters))

    def pull_back(grad: Tensor, x: Tensor, grad_x: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        inputs = tuple(t.to(_exact(t.dtype)) for t in (x, *parameters))
        value, gradients_of = torch.func.vjp(function, *inputs)  # type: ignore[bad-unpacking]
        first, *parts = gradients_of(grad.to(value.dtype))
        grad_x.copy_(first)
        return tuple(parts)

    return compiled(forward), compiled(pull_back)


def _exact_values(function: Function, x: Tensor, *parameters: Tensor) -> Tensor:
    return function(*(t.to(_exact(t.dtype)) for t in (x, *parameters)))


def _exact(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _blocks(x: Tensor, parameters: Sequence[Tensor]) -> Iterator[slice]:
    """Cut the rows into blocks, by the largest parameter: it has a number for each value on an edge."""
    budget = BLOCK_NUMBERS.get(x.device.type, BLOCK_NUMBERS["cpu"])
    length = max(1, budget // max(1, *(p.numel() for p in parameters)))
    return (slice(start, start + length) for start in range(0, len(x), length))
