"""Where a run stands, and whether it is well."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pretrain.training.health import find_problem


@dataclass
class LoopState:
    """What a checkpoint stores beside weights, moments and schedule.

    Attributes:
        step: Optimizer updates done.
        tokens: Tokens trained on, without padding.
        time_s: Seconds spent, over all sessions.
        compile_s: How many of them went into compiling kernels.
        rows_per_step: Packed rows of a step; a resumed run must keep it.
        losses: Losses of the steps since the last logged line, in nats per target token.
        grad_norms: Gradient norms of the same steps, before clipping.
        first_loss: Loss of the first step, which is that of the untrained model.
        metrics: SHA-256 of ``metrics.jsonl`` up to there; empty in older checkpoints.
    """

    step: int = 0
    tokens: int = 0
    time_s: float = 0.0
    compile_s: float = 0.0
    rows_per_step: int = 0
    losses: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)
    first_loss: float | None = None
    metrics: str = ""

    def read(self, unread: list[Tensor]) -> None:
        """Fetch what the device has computed since, and forget where it was; this waits for the device.

        Args:
            unread: What updates returned: (2,) loss and gradient norm of each.
        """
        if unread:
            for loss, grad_norm in torch.stack(unread).tolist():
                self.losses.append(loss)
                self.grad_norms.append(grad_norm)
            unread.clear()

    def problem(self, vocab_size: int, max_loss_ratio: float | None) -> tuple[int, str] | None:
        """What is wrong with the steps since the last logged line, and with which of them.

        Args:
            vocab_size: Of the model: one that guesses has a loss of its logarithm.
            max_loss_ratio: How often that, or the first step's loss, is too much; None for never.
        """
        if self.first_loss is None and self.losses:
            self.first_loss = self.losses[0]
        limit = (max_loss_ratio or math.inf) * max(math.log(vocab_size), self.first_loss or 0.0)
        return find_problem(self.losses, self.grad_norms, self.step, limit)

    def take_means(self) -> dict[str, float]:
        """Loss and gradient norms of the steps since the last logged line, for the line that is due."""
        losses, norms = list(self.losses), list(self.grad_norms)
        self.losses.clear()
        self.grad_norms.clear()
        return {
            "loss": sum(losses) / len(losses),
            "grad_norm": sum(norms) / len(norms),
            "grad_norm_max": max(norms),
        }
