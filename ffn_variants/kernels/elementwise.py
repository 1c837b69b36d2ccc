"""Functions of a row with learnable parameters: of each channel, or of each edge between two layers.

Autograd would keep every intermediate value of them. Here the backward pass keeps x alone and computes the
rest again, in blocks of rows.

``elementwise`` is for functions in one pass over the data each way, such as activations. Its blocks stay in a
processor's cache while the parameters' gradients are summed.

``edge_sums`` is for layers whose every edge has a function of its own, y_o = sum_i f(x_i; parameters of the
edge from i to o). There is no basis that outputs share, so nothing of it is a matrix product (see
``basis_linear`` for such). The values on edges, as many as outputs and inputs together for each row, never
exist whole: they are made and summed in blocks.

Shapes: N rows, C channels, E channels of the result, which are most often as many; I inputs, O outputs.
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
from ffn_variants.kernels.operations import name_of, with_name

Function = Callable[..., Tensor]
"""``function(x, *parameters)``: (N, C) to (N, E), each row on its own; a function of a module or a frozen
dataclass. Of ``edge_sums`` parameters are (..., O, I)."""

Gradients = Callable[..., tuple[Tensor, ...]]
"""``gradients(grad, x, *parameters)``: those of x and of each parameter, from the (N, E) of the result."""

BLOCK_NUMBERS = {"cpu": 2**17}
"""Values of x in a block; a GPU sums over all rows at once."""

EDGE_BLOCK_NUMBERS = {"cpu": 2**17, "cuda": 2**27}
"""Values on edges in a block: half a GiB on a GPU, where a layer of 512 to 1,024 channels has blocks of 64
rows or more. Each costs launches, and a pass over all parameters in the backward pass."""


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
    return _apply(function, gradients, x, parameters, on_edges=False)


def edge_sums(function: Function, x: Tensor, *parameters: Tensor) -> Tensor:
    """Apply a layer of edges; as ``elementwise``, in blocks by the values on its edges.

    Args:
        function: What an output is of the inputs.
        x: (..., I) inputs.
        *parameters: Learnable tensors whose last two dimensions are (O, I).

    Returns:
        (..., O) in the dtype of x.
    """
    return _apply(function, None, x, parameters, on_edges=True)


def _apply(
    function: Function, gradients: Gradients | None, x: Tensor, parameters: Sequence[Tensor], on_edges: bool
) -> Tensor:
    rows = x.reshape(-1, x.shape[-1])
    in_graph = torch.compiler.is_compiling() and not needs_plain_torch()
    names = (name_of(function), "" if gradients is None else name_of(gradients)) if in_graph else (None, None)
    if needs_plain_torch() or (in_graph and None in names):
        out = _rounded(function, rows, *parameters)
    elif in_graph:
        out = _operation(rows, list(parameters), *names, on_edges)
    else:
        out = _Elementwise.apply(function, gradients, on_edges, rows, *parameters)
    return out.reshape(*x.shape[:-1], out.shape[-1])


class _Elementwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        function: Function,
        gradients: Gradients | None,
        on_edges: bool,
        x: Tensor,
        *parameters: Tensor,
    ) -> Tensor:
        forward, ctx.pull_back = _kernels(function, gradients, _are_curves(parameters))
        ctx.on_edges = on_edges
        ctx.save_for_backward(x, *parameters)
        return _values(forward, x, parameters, on_edges)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:  # type: ignore[bad-override]
        x, *parameters = ctx.saved_tensors
        return None, None, None, *_sums(ctx.pull_back, grads[0], x, parameters, ctx.on_edges)


# The same as an operation of a graph, which neither Dynamo nor Inductor looks into.


@torch.library.custom_op(
    "ffn_variants::elementwise",
    mutates_args=(),
    schema="(Tensor x, Tensor[] parameters, str function, str gradients, bool on_edges) -> Tensor",
)
def _operation(x: Tensor, parameters: list[Tensor], function: str, gradients: str, on_edges: bool) -> Tensor:
    forward, _ = _kernels_with_names(function, gradients, _are_curves(parameters))
    with in_compiled_graph():
        return _values(forward, x.contiguous(), parameters, on_edges)


@_operation.register_fake
def _(x: Tensor, parameters: list[Tensor], function: str, *_: Any) -> Tensor:
    channels = with_name(function)(x[:1], *parameters).shape[1]
    return x.new_empty(x.shape[0], channels)


@torch.library.custom_op(
    "ffn_variants::elementwise_backward",
    mutates_args=(),
    schema="(Tensor grad, Tensor x, Tensor[] parameters, str function, str gradients, bool on_edges) "
    "-> Tensor[]",
)
def _backward_operation(
    grad: Tensor, x: Tensor, parameters: list[Tensor], function: str, gradients: str, on_edges: bool
) -> list[Tensor]:
    _, pull_back = _kernels_with_names(function, gradients, _are_curves(parameters))
    with in_compiled_graph():
        return _sums(pull_back, grad, x.contiguous(), parameters, on_edges)


@_backward_operation.register_fake
def _(grad: Tensor, x: Tensor, parameters: list[Tensor], *_: Any) -> list[Tensor]:
    return [torch.empty_like(t, memory_format=torch.contiguous_format) for t in (x, *parameters)]


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, parameters, *ctx.settings = inputs
    ctx.save_for_backward(x, *parameters)


def _backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, *parameters = ctx.saved_tensors
    grad_x, *sums = _backward_operation(grad, x, parameters, *ctx.settings)
    return grad_x, sums, None, None, None


_operation.register_autograd(_backward, setup_context=_save_for_backward)


def _values(
    forward: Callable[..., Tensor], x: Tensor, parameters: Sequence[Tensor], on_edges: bool
) -> Tensor:
    if compiled_kernels_in_use() and not on_edges:
        return forward(x, *parameters)
    # Operation by operation, it is the temporaries that want to stay in the cache.
    channels = parameters[0].shape[-2] if on_edges else forward(x[:1], *parameters).shape[1]
    out = x.new_empty(len(x), channels)
    for block in _blocks(x, parameters, on_edges):
        out[block] = forward(x[block], *parameters)
    return out


def _sums(
    pull_back: Callable[..., tuple[Tensor, ...]],
    grad: Tensor,
    x: Tensor,
    parameters: Sequence[Tensor],
    on_edges: bool,
) -> list[Tensor]:
    """The gradients of x and of the parameters."""
    grad = grad.contiguous()  # that of a sum is expanded, and would be compiled for anew
    grad_x = torch.empty_like(x, memory_format=torch.contiguous_format)
    sums = [
        torch.zeros_like(p, dtype=_exact(p.dtype), memory_format=torch.contiguous_format) for p in parameters
    ]
    for block in _blocks(x, parameters, on_edges):
        parts = pull_back(grad[block], x[block], grad_x[block], *parameters)
        for total, part in zip(sums, parts, strict=True):
            total += part
    return [grad_x, *(total.to(p.dtype) for total, p in zip(sums, parameters, strict=True))]


def _are_curves(parameters: Sequence[Tensor]) -> bool:
    """Whether a channel, or an edge, has several numbers: a GPU then takes several times as long eagerly."""
    return any(p.dim() > 1 for p in parameters)


def _kernels_with_names(function: str, gradients: str, are_curves: bool) -> Any:
    return _kernels(with_name(function), with_name(gradients) if gradients else None, are_curves)


@functools.cache
def _kernels(
    function: Function, gradients: Gradients | None, are_curves: bool
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

    return compiled(forward, slow_eagerly=are_curves), compiled(pull_back, slow_eagerly=are_curves)


def _rounded(function: Function, x: Tensor, *parameters: Tensor) -> Tensor:
    return function(*(t.to(_exact(t.dtype)) for t in (x, *parameters))).to(x.dtype)


def _exact(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _blocks(x: Tensor, parameters: Sequence[Tensor], on_edges: bool) -> Iterator[slice]:
    """Cut the rows into blocks, by their channels, or by the largest parameter: a number for each edge."""
    # 512 to 1,024 channels on a CPU: a row has 2^19 values on its edges, more than a block, so each row is
    # one.
    if on_edges:
        numbers = EDGE_BLOCK_NUMBERS.get(x.device.type, EDGE_BLOCK_NUMBERS["cpu"])
        width = max(p.numel() for p in parameters)
    else:
        numbers, width = BLOCK_NUMBERS.get(x.device.type, x.numel()), x.shape[1]
    length = max(1, numbers // max(1, width))
    return (slice(start, start + length) for start in range(0, len(x), length))
