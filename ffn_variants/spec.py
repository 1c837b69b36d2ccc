"""What the project knows of one feed-forward variant.

Shapes: D hidden_size, F intermediate_size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn

from base.options import Option, resolve_options


@dataclass(frozen=True, kw_only=True)
class FFNSpec:
    """One entry of the registry; it stands at the end of the file that holds the variant's modules."""

    name: str
    """As typed after ``--ffn`` and stored in config.json."""
    kind: Literal["activation", "block"]
    """Elementwise between the stock linear layers, or the whole map from D over F to D."""
    build: Callable[..., nn.Module]
    """``build(intermediate_size, **options)`` for an activation, ``build(hidden_size, intermediate_size,
    **options)`` for a block; every option is given."""
    formula: str
    """Plain text, for the table of ``python -m ffn_variants`` and the report."""
    reference: str
    """Paper or repository."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """What ``ffn_options`` may hold."""
    multiply_adds: Callable[..., int]
    """``multiply_adds(D, F, **options)`` of one token's forward pass through one FFN."""
    earlier_sources: tuple[str, ...] = ()
    """Fingerprints of earlier source that computed the same (see ``ffn_variants.source``)."""

    def resolve(self, options: Mapping[str, Any] | None) -> dict[str, int | float | str]:
        """Return a value for every option; ``UsageError`` for one that does not exist or does not fit."""
        return resolve_options(self.name, self.options, options)

    def num_params(self, hidden_size: int, intermediate_size: int, **options: Any) -> int:
        """Count the learnable parameters of one FFN of this variant, linear layers and biases included."""
        around = 2 * hidden_size * intermediate_size + intermediate_size + hidden_size
        sizes = (hidden_size, intermediate_size) if self.kind == "block" else (intermediate_size,)
        with torch.device("meta"):
            module = self.build(*sizes, **self.resolve(options))
        own = sum(parameter.numel() for parameter in module.parameters())
        return own + (around if self.kind == "activation" else 0)

    def flops_per_token(self, hidden_size: int, intermediate_size: int, **options: Any) -> int:
        """Count the floating-point operations of one token's forward pass through one FFN.

        Two for each multiply-add of the weights; activations, bases and biases are left out, as usual.
        Training costs about three times as much.
        """
        return 2 * self.multiply_adds(hidden_size, intermediate_size, **self.resolve(options))
