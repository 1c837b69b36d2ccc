"""Dropout on a CPU, where torch's own takes longer than the matrix products beside it.

torch draws a number for every value, one thread at a time. Here one 64-bit number decides four values: each
is dropped if its 16 bits, read as an integer, are below a threshold. The draws come from torch's generator.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ffn_variants.compilation import compiled

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
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return nn.functional.dropout(x, p)
    threshold = round(p * LEVELS)
    if threshold == 0:
        return x
    return _Dropout.apply(x, threshold - LEVELS // 2, LEVELS / (LEVELS - threshold))  # type: ignore[return-value]


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
    def forward(ctx: Any, x: Tensor, threshold: int, scale: float) -> Tensor:
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        ctx.bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        ctx.threshold, ctx.scale = threshold, scale
        return _keep(x.contiguous(), ctx.bits, threshold, scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None, None]:  # type: ignore[bad-override]
        return _keep(grads[0].contiguous(), ctx.bits, ctx.threshold, ctx.scale), None, None


@compiled
def _keep(x: Tensor, bits: Tensor, threshold: int, scale: float) -> Tensor:
    return torch.where(bits >= threshold, x * scale, 0)
