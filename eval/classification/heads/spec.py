"""What the project knows of one classification head, and what every head returns.

Shapes: n examples, M vectors of the longest example, D hidden_size, C labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from base.options import Option, resolve_options

Reads = Literal["example", "tokens", "segments"]


class HeadOutput(NamedTuple):
    """What a head makes of a batch.

    Attributes:
        logits: (n, C).
        auxiliary_loss: A scalar that training adds to the loss of the logits; None for most heads.
        segment_scores: (n, M, C), what each segment adds to or says of each label; None without segments.
    """

    logits: Tensor
    auxiliary_loss: Tensor | None = None
    segment_scores: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class HeadSpec:
    """One entry of the registry; it stands at the end of the file that holds the head's module."""

    name: str
    """As typed after ``--head``."""
    reads: Reads
    """One vector an example, the vectors of its tokens, or one of each of its segments."""
    build: Callable[..., nn.Module]
    """``build(hidden_size, num_labels, **options)``, every option given. The module's ``forward(vectors,
    mask)`` takes (n, D) and None where the head reads the example, else (n, M, D) and a (n, M) mask that is
    true where there is a vector, and returns a ``HeadOutput``."""
    formula: str
    """Plain text, for the table of ``python -m eval.heads`` and the documents."""
    reference: str
    """Paper or repository."""
    fits_multi_label: bool = True
    """Whether its logits can be read one by one, so that an example may have several labels."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """What may be given behind the name: ``--head "fourier-kan grid_size=10"``."""

    def resolve(self, options: Mapping[str, Any] | None = None) -> dict[str, int | float | str]:
        """Return a value for every option; ``UsageError`` for one that does not exist or does not fit."""
        return resolve_options(self.name, self.options, options, kind="head")

    def num_params(self, hidden_size: int, num_labels: int, **options: Any) -> int:
        """Count the learnable parameters of a head, biases included."""
        with torch.device("meta"):
            module = self.build(hidden_size, num_labels, **self.resolve(options))
        return sum(parameter.numel() for parameter in module.parameters())
