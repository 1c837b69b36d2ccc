"""The elementwise functions inside a model's FFNs, as modules that anyone may evaluate where they want.

Shapes: N rows, F channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ffn_variants.inside.edges import ffns_of
from ffn_variants.variants.gr_kan import GroupRational

_SLOTS = ("act", "intermediate_act_fn")
"""Where GPT-Neo, T5 and Llama, and RoBERTa, keep what stands between the two linear layers."""


@dataclass(frozen=True)
class Activation:
    """One elementwise function of a model.

    Attributes:
        layer: Number of the transformer layer, from 0.
        module: From (N, F) to (N, F), each channel on its own.
    """

    layer: int
    module: nn.Module

    @property
    def is_learnable(self) -> bool:
        """Whether it has parameters."""
        return any(True for _ in self.module.parameters())


def activations_of(model: nn.Module) -> list[Activation]:
    """List the elementwise functions of a model's FFNs, in their order."""
    return [
        Activation(number, module)
        for number, parts in enumerate(ffns_of(model))
        for module in _elementwise(parts)
    ]


def _elementwise(parts: tuple[nn.Module, ...]) -> Iterator[nn.Module]:
    for slot in _SLOTS:
        if isinstance(module := getattr(parts[0], slot, None), nn.Module):
            yield module
            return
    for part in parts:
        yield from (module for module in part.modules() if isinstance(module, GroupRational))


@torch.no_grad()
def curves(module: nn.Module, points: Tensor, num_channels: int) -> Tensor:
    """Evaluate every channel's function at the same points: (Q,) to (Q, F)."""
    return module(points.unsqueeze(1).expand(-1, num_channels).contiguous())
