"""A linear layer on fixed functions of its inputs: y_o = sum_i sum_k w_oki phi_k(x_i).

KAN layers of every basis are this. The features phi_k(x_i), K times as many as inputs, never exist whole:
they are made, multiplied and dropped in blocks of rows, and made again in the backward pass, which keeps x
alone. All that is left to pay for are the matrix products.

Shapes: N rows, I in_features, O out_features, K features of each input.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ffn_variants.kernels.compilation import compiled, in_compiled_graph
from ffn_variants.kernels.naming import name_of, named
from ffn_variants.kernels.triton_ops import triton_kernels

Basis = Callable[..., Tensor]
"""``basis(x, *constants)``: (N, I) inputs to (N, K, I) features, each input on its own; constants are tensors
that broadcast over the rows and take no gradient. Hashable, as kernels are kept by it: a function of a module
or a frozen dataclass."""


class Unsettled(Protocol):
    """What only the values of the constants make a basis; a frozen dataclass of numbers and text."""

    @property
    def settle(self) -> Callable[..., tuple[Basis, tuple[Tensor, ...]]]:
        """A method that takes the constants and chooses a basis and its own constants.

        It is never traced, so it may read tensors.
        """
        ...


BLOCK_NUMBERS = {"cpu": 2**21, "cuda": 2**26}
"""Features in a block: few enough for a processor's cache, enough to fill its matrix units."""


def basis_linear(x: Tensor, weight: Tensor, basis: Basis | Unsettled, *constants: Tensor) -> Tensor:
    """Apply the layer.

    Under autocast the matrix products are in its dtype. The features are computed in float32 at least, then
    rounded to the dtype of the products. Gradients are those of ``basis`` by torch.func; they cannot be
    differentiated again.

    In somebody's ``torch.compile`` it is one operation, ``ffn_variants::basis_linear``, with kernels of its
    own. Only a basis that no text can name (see ``naming``) is traced there, with features that exist whole.

    Args:
        x: (..., I) inputs.
        weight: (O, K I), all inputs of the first feature before those of the second.
        basis: The K functions.
        *constants: What else the basis needs.

    Returns:
        (..., O) in the dtype of the products.
    """
    rows = x.reshape(-1, x.shape[-1])
    if torch.is_autocast_enabled(x.device.type):
        weight = weight.to(torch.get_autocast_dtype(x.device.type))
    if torch.compiler.is_compiling():
        out = _in_a_graph(rows, weight, basis, constants)
    else:
        basis, constants = _settled(basis, constants)
        out = _BasisLinear.apply(rows, weight, basis, *constants)
    return out.view(*x.shape[:-1], weight.shape[0])  # type: ignore[union-attr]


def _in_a_graph(x: Tensor, weight: Tensor, basis: Any, constants: Sequence[Tensor]) -> Tensor:
    name = name_of(basis)
    if name is not None:
        return _operation(x, weight, name, list(constants))
    return _exact(basis, x, *constants).to(weight.dtype).flatten(1) @ weight.t()


def _settled(basis: Any, constants: Sequence[Tensor]) -> tuple[Basis, tuple[Tensor, ...]]:
    return basis.settle(*constants) if hasattr(basis, "settle") else (basis, tuple(constants))


class _BasisLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, basis: Basis, *constants: Tensor) -> Tensor:
        ctx.basis = basis
        ctx.save_for_backward(x, weight, *constants)
        return _values(x, weight, basis, constants)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:  # type: ignore[bad-override]
        x, weight, *constants = ctx.saved_tensors
        of_inputs = _gradients(grads[0], x, weight, ctx.basis, constants, *ctx.needs_input_grad[:2])
        return *of_inputs, None, *(None for _ in constants)


# The same as an operation of a graph, which neither Dynamo nor Inductor looks into. Not for CUDA graphs that
# Inductor records by itself (mode="reduce-overhead"): a replay would go on with the knots of the recording.
_UNRECORDED = (torch.Tag.cudagraph_unsafe,)


@torch.library.custom_op(
    "ffn_variants::basis_linear",
    mutates_args=(),
    schema="(Tensor x, Tensor weight, str basis, Tensor[] constants) -> Tensor",
    tags=_UNRECORDED,
)
def _operation(x: Tensor, weight: Tensor, basis: str, constants: list[Tensor]) -> Tensor:
    with in_compiled_graph():
        return _values(x, weight, *_settled(named(basis), constants))


@_operation.register_fake
def _(x: Tensor, weight: Tensor, *_: Any) -> Tensor:
    return x.new_empty(len(x), len(weight), dtype=weight.dtype)


@torch.library.custom_op(
    "ffn_variants::basis_linear_backward",
    mutates_args=(),
    schema="(Tensor grad, Tensor x, Tensor weight, str basis, Tensor[] constants, bool needs_x, "
    "bool needs_weight) -> (Tensor, Tensor)",
    tags=_UNRECORDED,
)
def _backward_operation(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    basis: str,
    constants: list[Tensor],
    needs_x: bool,
    needs_weight: bool,
) -> tuple[Tensor, Tensor]:
    with in_compiled_graph():
        settled = _settled(named(basis), constants)
        grad_x, grad_weight = _gradients(grad, x, weight, *settled, needs_x, needs_weight)
    # An operation has tensors as its results; an empty one stands for none.
    none = x.new_empty(0)
    return none if grad_x is None else grad_x, none.clone() if grad_weight is None else grad_weight


@_backward_operation.register_fake
def _(
    grad: Tensor, x: Tensor, weight: Tensor, basis: str, constants: Any, needs_x: bool, needs_weight: bool
) -> tuple[Tensor, Tensor]:
    grad_x = torch.empty_like(x) if needs_x else x.new_empty(0)
    return grad_x, torch.empty_like(weight) if needs_weight else x.new_empty(0)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, weight, ctx.basis, constants = inputs
    ctx.save_for_backward(x, weight, *constants)


def _backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, weight, *constants = ctx.saved_tensors
    needs_x, needs_weight = ctx.needs_input_grad[:2]
    grad_x, grad_weight = _backward_operation(grad, x, weight, ctx.basis, constants, needs_x, needs_weight)
    return grad_x if needs_x else None, grad_weight if needs_weight else None, None, [None] * len(constants)


_operation.register_autograd(_backward, setup_context=_keep)


def _values(x: Tensor, weight: Tensor, basis: Basis, constants: Sequence[Tensor]) -> Tensor:
    features, _ = _kernels(basis)
    out = x.new_empty(len(x), len(weight), dtype=weight.dtype)
    for block, buffer in _blocks(x, weight):
        features(x[block], buffer, *constants)
        torch.mm(buffer.flatten(1), weight.t(), out=out[block])
    return out


def _gradients(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    basis: Basis,
    constants: Sequence[Tensor],
    needs_x: bool,
    needs_weight: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """Those of x and of the weights, from (N, O) of the result."""
    features, slopes = _kernels(basis)
    grad_x = torch.empty_like(x) if needs_x else None
    # In float32 at least: a long sum of bf16 blocks would lose its small terms.
    exact = torch.promote_types(weight.dtype, torch.float32)
    grad_weight = torch.zeros_like(weight, dtype=exact) if needs_weight else None
    for block, buffer in _blocks(x, weight):
        x_block, grad_block = x[block], grad[block]
        if grad_weight is not None:
            features(x_block, buffer, *constants)
            add_product(grad_weight, grad_block.t(), buffer.flatten(1))
        if grad_x is not None:
            torch.mm(grad_block, weight, out=buffer.flatten(1))
            slopes(x_block, buffer, grad_x[block], *constants)
    return grad_x, None if grad_weight is None else grad_weight.to(weight.dtype)


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add a matrix product to a sum over blocks, whose dtype may be wider than that of the factors."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        _add(total, torch.mm(left, right))


@compiled
def _add(total: Tensor, part: Tensor) -> None:
    total += part  # in one pass, where torch would first make a copy in the wider dtype


@functools.cache
def _kernels(basis: Basis) -> tuple[Callable[..., None], Callable[..., None]]:
    """The features of a block, and the gradient of x from theirs; both written where they are told."""

    def features(x: Tensor, out: Tensor, *constants: Tensor) -> None:
        out.copy_(_exact(basis, x, *constants))

    def slopes(x: Tensor, grad: Tensor, out: Tensor, *constants: Tensor) -> None:
        value, pull_back = torch.func.vjp(lambda x: _exact(basis, x, *constants), x)  # type: ignore[bad-unpacking]
        out.copy_(pull_back(grad.to(value.dtype))[0])

    of_features, of_slopes = triton_kernels(basis) or (None, None)
    return compiled(features, of_features), compiled(slopes, of_slopes)


def _exact(basis: Basis, x: Tensor, *constants: Tensor) -> Tensor:
    return basis(x.to(torch.promote_types(x.dtype, torch.float32)), *constants)


def _blocks(x: Tensor, weight: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Cut the rows into blocks of about equal length, each with the same room for (rows, K, I) features."""
    budget = BLOCK_NUMBERS.get(x.device.type, BLOCK_NUMBERS["cpu"])
    count = max(1, -(-len(x) * weight.shape[1] // budget))
    length = max(1, -(-len(x) // count))
    buffer = x.new_empty(min(length, len(x)), weight.shape[1] // x.shape[1], x.shape[1], dtype=weight.dtype)
    for start in range(0, len(x), length):
        stop = min(start + length, len(x))
        yield slice(start, stop), buffer[: stop - start]
