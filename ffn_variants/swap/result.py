"""What a swap measured, as data and as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from base.table import format_table


@dataclass(frozen=True)
class LayerResult:
    """One layer: mean squared error on held-out text as a share of the outputs' variance."""

    layer: int
    error_unfitted: float
    error_fitted: float


@dataclass(frozen=True, kw_only=True)
class Result:
    """Losses are held-out ones, in nats per predicted token."""

    model: str
    family: str
    ffn_before: list[str | None]
    """Of the replaced layers; None for what the registry does not have."""
    ffn: str
    ffn_options: dict[str, Any] | None
    intermediate_size: int
    layers: list[int]
    parameters_before: dict[str, int]
    parameters_after: dict[str, int]
    tokens: dict[str, int]
    """Of the text that was read: to train on, and held out."""
    loss_before: float
    loss_swapped: float
    """After the exchange, before anything is fitted."""
    errors: list[LayerResult]
    loss_fitted: float | None = None
    loss_finetuned: float | None = None
    minutes: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """Write the result for a reader."""
        before, after = self.parameters_before, self.parameters_after
        replaced = ", ".join(sorted({str(name or "another FFN") for name in self.ffn_before}))
        lines = [
            f"{self.ffn} in place of {replaced} in {len(self.layers)} layers of {self.family}; "
            f"{self.tokens['train']:,} tokens read, {self.tokens['held_out']:,} held out",
            f"parameters {before['total']:,} before, {after['total']:,} after; "
            f"of the FFNs {before['ffn']:,} and {after['ffn']:,}",
            "",
            format_table([("held-out loss", "nats per token"), *self._losses()]),
            "",
            format_table([("layer", "relative error, unfitted", "fitted"), *map(_row, self.errors)]),
            "",
            f"{self.minutes:.1f} minutes",
        ]
        return "\n".join(lines)

    def _losses(self) -> list[tuple[str, str]]:
        stages = {
            "before": self.loss_before,
            "swapped": self.loss_swapped,
            "fitted": self.loss_fitted,
            "fine-tuned": self.loss_finetuned,
        }
        return [(name, f"{loss:.4f}") for name, loss in stages.items() if loss is not None]


def _row(layer: LayerResult) -> tuple[str, str, str]:
    return str(layer.layer), f"{layer.error_unfitted:.4g}", f"{layer.error_fitted:.4g}"
