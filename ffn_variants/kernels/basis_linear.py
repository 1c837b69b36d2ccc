"""A linear layer on fixed functions of its inputs: y_o = sum_i sum_k w_oki phi_k(x_i).

KAN layers of every basis are this. The features phi_k(x_i), K times as many as inputs, never exist whole:
they are made, multiplied and dropped in blocks of rows, and made again in the backward pass, which keeps x
alone. All that is left to pay for are the matrix products.

Shapes: N rows, I in_features, O out_features, K features of each input.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ffn_variants.kernels.compilation import compiled

Basis = Callable[..., Tensor]
"""``basis(x, *constants)``: (N, I) inputs to (N, K, I) features, each input on its own; constants are tensors
that broadcast over the rows and take no gradient. Hashable, as kernels are kept by it: a function of a module
or a frozen dataclass."""

BLOCK_NUMBERS = {"cpu": 2**21, "cuda": 2**26}
"""Features in a block: few enough for a processor's cache, enough to fill its matrix units."""


def basis_linear(x: Tensor, weight: Tensor, basis: Basis, *constants: Tensor) -> Tensor:
    """Apply the layer.

    Under autocast the matrix products are in its dtype. The features are computed in float32 at least, then
    rounded to the dtype of the products. Gradients are those of ``basis`` by torch.func; they cannot be
    differentiated again.

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
    out = _BasisLinear.apply(rows, weight, basis, *constants)
    return out.view(*x.shape[:-1], weight.shape[0])  # type: ignore[union-attr]


class _BasisLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, basis: Basis, *constants: Tensor) -> Tensor:
        ctx.basis = basis
        ctx.save_for_backward(x, weight, *constants)
        features, _ = _kernels(basis)
        out = x.new_empty(len(x), len(weight), dtype=weight.dtype)
        for block, buffer in _blocks(x, weight):
            features(x[block], buffer, *constants)
            torch.mm(buffer.flatten(1), weight.t(), out=out[block])
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:  # type: ignore[bad-override]
        x, weight, *constants = ctx.saved_tensors
        features, slopes = _kernels(ctx.basis)
        needs_x, needs_weight = ctx.needs_input_grad[:2]
        grad_x = torch.empty_like(x) if needs_x else None
        # In float32 at least: a long sum of bf16 blocks would lose its small terms.
        exact = torch.promote_types(weight.dtype, torch.float32)
        grad_weight = torch.zeros_like(weight, dtype=exact) if needs_weight else None
        for block, buffer in _blocks(x, weight):
            x_block, grad = x[block], grads[0][block]
            if grad_weight is not None:
                features(x_block, buffer, *constants)
                add_product(grad_weight, grad.t(), buffer.flatten(1))
            if grad_x is not None:
                torch.mm(grad, weight, out=buffer.flatten(1))
                slopes(x_block, buffer, grad_x[block], *constants)
        if grad_weight is not None:
            grad_weight = grad_weight.to(weight.dtype)
        return grad_x, grad_weight, None, *(None for _ in constants)


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

    def exact(x: Tensor, *constants: Tensor) -> Tensor:
        return basis(x.to(torch.promote_types(x.dtype, torch.float32)), *constants)

    def features(x: Tensor, out: Tensor, *constants: Tensor) -> None:
        out.copy_(exact(x, *constants))

    def slopes(x: Tensor, grad: Tensor, out: Tensor, *constants: Tensor) -> None:
        value, pull_back = torch.func.vjp(lambda x: exact(x, *constants), x)  # type: ignore[bad-unpacking]
        out.copy_(pull_back(grad.to(value.dtype))[0])

    return compiled(features), compiled(slopes)


def _blocks(x: Tensor, weight: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Cut the rows into blocks of about equal length, each with the same room for (rows, K, I) features."""
    budget = BLOCK_NUMBERS.get(x.device.type, BLOCK_NUMBERS["cpu"])
    count = max(1, -(-len(x) * weight.shape[1] // budget))
    length = max(1, -(-len(x) // count))
    buffer = x.new_empty(min(length, len(x)), weight.shape[1] // x.shape[1], x.shape[1], dtype=weight.dtype)
    for start in range(0, len(x), length):
        stop = min(start + length, len(x))
        yield slice(start, stop), buffer[: stop - start]
