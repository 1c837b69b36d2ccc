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
        name: Where it stands in the FFN; empty for the only one.
        module: From (N, F) to (N, F), each channel on its own.
        following: The linear layer that reads it; None where nothing in the FFN does.
    """

    layer: int
    name: str
    module: nn.Module
    following: nn.Linear | None = None

    @property
    def is_learnable(self) -> bool:
        """Whether it has parameters."""
        return any(True for _ in self.module.parameters())


def activations_of(model: nn.Module) -> list[Activation]:
    """List the elementwise functions of a model's FFNs, in their order."""
    return [
        Activation(number, name, module, following)
        for number, parts in enumerate(ffns_of(model))
        for name, module, following in _elementwise(parts)
    ]


def _elementwise(parts: tuple[nn.Module, ...]) -> Iterator[tuple[str, nn.Module, nn.Linear | None]]:
    for slot in _SLOTS:
        if isinstance(module := getattr(parts[0], slot, None), nn.Module):
            after = parts[1:] or tuple(parts[0].children())
            linear = [child for child in after if isinstance(child, nn.Linear)]
            yield "", module, linear[-1] if linear else None
            return
    for part in parts:
        modules = list(part.named_modules())
        for place, (name, module) in enumerate(modules):
            if isinstance(module, GroupRational):
                behind = (later for _, later in modules[place + 1 :] if isinstance(later, nn.Linear))
                yield name.rpartition(".")[2], module, next(behind, None)


def channel_parameters(activation: Activation, num_channels: int) -> dict[str, Tensor]:
    """The parameters whose first dimension is channels, or groups of them, by name."""
    module = activation.module
    groups = {num_channels} | ({len(module.denominator)} if isinstance(module, GroupRational) else set())
    return {
        name: parameter
        for name, parameter in module.named_parameters()
        if parameter.ndim and len(parameter) in groups and name != "numerator"
    }


@torch.no_grad()
def curves(module: nn.Module, points: Tensor, num_channels: int) -> Tensor:
    """Evaluate every channel's function at the same points: (Q,) to (Q, F)."""
    return module(points.unsqueeze(1).expand(-1, num_channels).contiguous())
