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

from ffn_variants.kernels.compilation import compiled, in_compiled_graph, needs_plain_torch
from ffn_variants.kernels.operations import autocast_dtype, name_of, with_name
from ffn_variants.kernels.triton_ops import triton_kernels

Basis = Callable[..., Tensor]
"""``basis(x, *constants)``: (N, I) inputs to (N, K, I) features, each input on its own; constants are tensors
that broadcast over the rows, learned or not. Hashable, as kernels are kept by it: a function of a module or a
frozen dataclass."""


class FeatureByFeature:
    """A basis whose features are made one after the other; a frozen dataclass.

    Inductor makes one kernel of such a list and of its gradients, where a stacked tensor would be written to
    memory in float32 first (benchmarks/RESULTS.md).
    """

    def each(self, x: Tensor) -> list[Tensor]:
        """Evaluate (N, I) inputs to K features (N, I)."""
        raise NotImplementedError

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate (N, I) inputs to (N, K, I) features."""
        return torch.stack(self.each(x), 1)


class Unsettled(Protocol):
    """A basis that its constants' values may make a cheaper one; a frozen dataclass of numbers and text.

    Its constants are not learned.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """Be a ``Basis`` whatever the constants hold, without reading them."""
        ...

    @property
    def settle(self) -> Callable[..., tuple[Basis, tuple[Tensor, ...]]]:
        """A method that takes the constants and chooses a basis and its own constants.

        It is never traced, so it may read tensors.
        """
        ...


BLOCK_NUMBERS = {"cpu": 2**21, "cuda": 2**26}
"""Features in a block: few enough for a processor's cache, enough to fill its matrix units."""

SUM_NUMBERS = {"cpu": 2**17}
"""Of them, how many rows are summed over at once for what is learned of a basis; a GPU sums over a block."""


def basis_linear(x: Tensor, weight: Tensor, basis: Basis | Unsettled, *constants: Tensor) -> Tensor:
    """Apply the layer.

    Under autocast the matrix products are in its dtype. The features are computed in float32 at least, then
    rounded to the dtype of the products. Gradients, also of the constants that require them, are those of
    ``basis`` by torch.func; they cannot be differentiated again.

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
    weight = weight.to(autocast_dtype(x) or weight.dtype)
    plain, in_graph = needs_plain_torch(), torch.compiler.is_compiling()
    name = name_of(basis) if in_graph and not plain else None
    if plain or (in_graph and name is None):
        out = _exact(basis, rows, *constants).to(weight.dtype).flatten(1) @ weight.t()
    elif name is not None:
        out = _operation(rows, weight, name, list(constants))
    else:
        basis, constants = _settled(basis, constants)
        out = _BasisLinear.apply(rows, weight, basis, *constants)
    return out.reshape(*x.shape[:-1], weight.shape[0])


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
        needs_x, needs_weight, _, *needs = ctx.needs_input_grad
        gradients = _gradients(grads[0], x, weight, ctx.basis, constants, [needs_x, needs_weight, *needs])
        return *gradients[:2], None, *gradients[2:]


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
        return _values(x, weight, *_settled(with_name(basis), constants))


@_operation.register_fake
def _(x: Tensor, weight: Tensor, *_: Any) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0], dtype=weight.dtype)


@torch.library.custom_op(
    "ffn_variants::basis_linear_backward",
    mutates_args=(),
    schema="(Tensor grad, Tensor x, Tensor weight, str basis, Tensor[] constants, bool[] needs) -> Tensor[]",
    tags=_UNRECORDED,
)
def _backward_operation(
    grad: Tensor, x: Tensor, weight: Tensor, basis: str, constants: list[Tensor], needs: list[bool]
) -> list[Tensor]:
    with in_compiled_graph():
        gradients = _gradients(grad, x, weight, *_settled(with_name(basis), constants), needs)
    # An operation has tensors as its results; an empty one stands for none, also for the constants beyond
    # those that a basis settled on: it reads what it was given, so none of that is learned.
    gradients += [None] * (len(needs) - len(gradients))
    return [x.new_empty(0) if each is None else each for each in gradients]


@_backward_operation.register_fake
def _(
    grad: Tensor, x: Tensor, weight: Tensor, basis: str, constants: list[Tensor], needs: list[bool]
) -> list[Tensor]:
    # That of x is laid out as x is; sums over blocks are contiguous.
    results = (
        torch.empty_like(x),
        *(parameter.new_empty(parameter.shape) for parameter in (weight, *constants)),
    )
    return [each if need else x.new_empty(0) for each, need in zip(results, needs, strict=True)]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, weight, ctx.basis, constants = inputs
    ctx.save_for_backward(x, weight, *constants)


def _backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, weight, *constants = ctx.saved_tensors
    needs_x, needs_weight, _, needs_constants = ctx.needs_input_grad
    needs = [needs_x, needs_weight, *needs_constants]
    gradients = _backward_operation(grad, x, weight, ctx.basis, constants, needs)
    needed = (each if need else None for each, need in zip(gradients, needs, strict=True))
    of_x, of_weight, *of_constants = needed
    return of_x, of_weight, None, of_constants


_operation.register_autograd(_backward, setup_context=_keep)


def _values(x: Tensor, weight: Tensor, basis: Basis, constants: Sequence[Tensor]) -> Tensor:
    # 10,000 rows of 512 inputs and 9 features are 46 million features, 184 MB in float32: on a CPU 22 blocks
    # of about 455 rows, 8 MB each, in one buffer that stays in the cache between being written and
    # multiplied.
    features = _features(basis)
    out = x.new_empty(len(x), len(weight), dtype=weight.dtype)
    for block, buffer in _blocks(x, weight):
        features(x[block], buffer, *constants)
        torch.mm(buffer.flatten(1), weight.t(), out=out[block])
    return out


def _gradients(
    grad: Tensor, x: Tensor, weight: Tensor, basis: Basis, constants: Sequence[Tensor], needs: Sequence[bool]
) -> list[Tensor | None]:
    """Those of x, of the weights and of the constants, as needed, from (N, O) of the result."""
    # One buffer of (block, K, I) numbers serves twice: for the features, which the gradient of the weights is
    # a product with, and then for the gradient of the features, from which those of x and the constants
    # follow.
    needs_x, needs_weight, *needs_constants = needs
    learned = tuple(index for index, need in enumerate(needs_constants) if need)
    features, slopes = _features(basis), _slopes(basis, learned)
    grad_x = torch.empty_like(x) if needs_x or learned else None
    # In float32 at least: a long sum of bf16 blocks would lose its small terms.
    grad_weight = _zeros(weight) if needs_weight else None
    sums = {index: _zeros(constants[index]) for index in learned}
    for block, buffer in _blocks(x, weight):
        x_block, grad_block = x[block], grad[block]
        if grad_weight is not None:
            features(x_block, buffer, *constants)
            add_product(grad_weight, grad_block.t(), buffer.flatten(1))
        if grad_x is not None:
            torch.mm(grad_block, weight, out=buffer.flatten(1))
            for rows in _rows_of_a_sum(buffer) if learned else (slice(None),):
                parts = slopes(x_block[rows], buffer[rows], grad_x[block][rows], *constants)
                for index, part in zip(learned, parts or (), strict=True):
                    sums[index] += part
    of_constants = (sums[i].to(c.dtype) if i in sums else None for i, c in enumerate(constants))
    return [
        grad_x if needs_x else None,
        None if grad_weight is None else grad_weight.to(weight.dtype),
        *of_constants,
    ]


def _zeros(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter, dtype=_wide(parameter), memory_format=torch.contiguous_format)


def add_product(total: Tensor, first: Tensor, second: Tensor) -> None:
    """Add a matrix product to a sum over blocks, whose dtype may be wider than that of the factors."""
    if total.dtype == first.dtype:
        total.addmm_(first, second)
    else:
        _add(total, torch.mm(first, second))


@compiled
def _add(total: Tensor, part: Tensor) -> None:
    total += part  # in one pass, where torch would first make a copy in the wider dtype


@functools.cache
def _features(basis: Basis) -> Callable[..., None]:
    """Make the features of a block, written where it is told."""

    def features(x: Tensor, out: Tensor, *constants: Tensor) -> None:
        values = _exact(getattr(basis, "each", basis), x, *constants)
        out.copy_(values if isinstance(values, Tensor) else torch.stack([v.to(out.dtype) for v in values], 1))

    by_hand = triton_kernels(basis)
    return compiled(features, by_hand and by_hand[0], slow_eagerly=True)


@functools.cache
def _slopes(basis: Basis, learned: tuple[int, ...]) -> Callable[..., tuple[Tensor, ...] | None]:
    """From the features' gradient that of x, written where it is told, and those of the learned constants.

    Kernels by hand return nothing; they are for bases of which nothing is learned.
    """

    def slopes(x: Tensor, grad: Tensor, out: Tensor, *constants: Tensor) -> tuple[Tensor, ...]:
        def with_learned(x: Tensor, *values: Tensor) -> Tensor:
            by_number = dict(enumerate(constants)) | dict(zip(learned, values, strict=True))
            return _exact(getattr(basis, "each", basis), x, *by_number.values())

        values = (constants[index].to(_wide(constants[index])) for index in learned)
        features, pull_back = torch.func.vjp(with_learned, x, *values)  # type: ignore[bad-unpacking]
        if isinstance(features, Tensor):
            first, *parts = pull_back(grad.to(features.dtype))
        else:
            first, *parts = pull_back([g.to(f.dtype) for g, f in zip(grad.unbind(1), features, strict=True)])
        out.copy_(first)
        return tuple(parts)

    by_hand = None if learned else triton_kernels(basis)
    return compiled(slopes, by_hand and by_hand[1], slow_eagerly=True)


def _exact(basis: Basis | Unsettled, x: Tensor, *constants: Tensor) -> Tensor:
    return basis(x.to(_wide(x)), *constants)


def _wide(values: Tensor) -> torch.dtype:
    return torch.promote_types(values.dtype, torch.float32)


def _rows_of_a_sum(features: Tensor) -> Iterator[slice]:
    """Cut a block so that what is summed over its rows stays in the cache nearest to a core."""
    length = max(1, SUM_NUMBERS.get(features.device.type, features.numel()) // max(1, features[0].numel()))
    return (slice(start, start + length) for start in range(0, len(features), length))


def _blocks(x: Tensor, weight: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Cut the rows into blocks of about equal length, each with the same room for (rows, K, I) features."""
    # 10 rows with room for 4 are three blocks, of 4, 4 and 2 rows; the last has a part of the buffer.
    budget = BLOCK_NUMBERS.get(x.device.type, BLOCK_NUMBERS["cpu"])
    count = max(1, -(-len(x) * weight.shape[1] // budget))
    length = max(1, -(-len(x) // count))
    buffer = x.new_empty(min(length, len(x)), weight.shape[1] // x.shape[1], x.shape[1], dtype=weight.dtype)
    for start in range(0, len(x), length):
        stop = min(start + length, len(x))
        yield slice(start, stop), buffer[: stop - start]
