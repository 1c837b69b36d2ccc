"""Dropout on a CPU, where torch's own takes longer than the matrix products beside it.

torch draws a number for every value, one thread at a time. Here one 64-bit number decides four values: each
is dropped if its 16 bits, read as an integer, are below a threshold. The draws come from torch's generator.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEVELS = 2**16
"""Values of 16 bits; a probability is rounded to a multiple of 1 / 65,536."""


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each value with probability ``p`` and divide the others by ``1 - p``.

    Args:
        x: Any shape.
        p: Below 1; on a CPU rounded to a multiple of 1 / 65,536, in the division as well.

    Returns:
        As ``x``.
    """
    return _dropout_on_cpu(x, p) if x.device.type == "cpu" else nn.functional.dropout(x, p)


@torch.compiler.disable  # it cannot draw 64 bits at a time
def _dropout_on_cpu(x: Tensor, p: float) -> Tensor:
    return _Dropout.apply(x, p)  # type: ignore[return-value]


def draw_dropped(shape: torch.Size, p: float) -> tuple[Tensor | None, float]:
    """Draw which values of a CPU tensor to drop.

    Args:
        shape: Of the tensor.
        p: Below 1; rounded to a multiple of 1 / 65,536.

    Returns:
        Where to put zeros, or None for nowhere; and what to multiply the other values by.
    """
    threshold = round(p * LEVELS)
    if threshold == 0:
        return None, 1.0
    draws = torch.empty(-(-shape.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = draws.view(torch.int16)[: shape.numel()].view(shape)
    return bits < threshold - LEVELS // 2, LEVELS / (LEVELS - threshold)


class Dropout(nn.Dropout):
    """``nn.Dropout`` by the function of this file."""

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p) if self.training else input


def replace_dropouts(model: nn.Module) -> None:
    """Exchange every ``nn.Dropout`` inside a model; it has no weights, so nothing else changes."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, Dropout(child.p).train(child.training))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        ctx.dropped, ctx.scale = draw_dropped(x.shape, p)
        return _drop(x, ctx.dropped, ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:  # type: ignore[bad-override]
        return _drop(grads[0], ctx.dropped, ctx.scale), None


def _drop(x: Tensor, dropped: Tensor | None, scale: float) -> Tensor:
    return x if dropped is None else (x * scale).masked_fill_(dropped, 0)
