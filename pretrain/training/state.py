"""Where a run stands, and whether it is well; what is left of one that no more steps can save."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from base.errors import UsageError
from base.files import write_text
from base.records import parse_json
from base.run.folders import RunFolder

ADVICE = "lower --optim.learning-rate or --optim.max-grad-norm, or add --optim.warmup-steps"


class Diverged(Exception):  # noqa: N818  as Stopped, it is an event
    """A run diverged.

    Attributes:
        step: The number of the step at fault, counted from 1.
        problem: What is wrong with it.
    """

    def __init__(self, step: int, problem: str) -> None:
        super().__init__(f"{problem} at step {step}")
        self.step, self.problem = step, problem


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
        metrics: SHA-256 of ``metrics.jsonl`` up to there.
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

    def problem(self, vocab_size: int, max_loss_ratio: float | None) -> Diverged | None:
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


def find_problem(
    losses: Sequence[float], grad_norms: Sequence[float], step: int, limit: float
) -> Diverged | None:
    """Look for what no run recovers from in the steps since the last logged line.

    Args:
        losses: Loss of each of those steps, in nats per target token.
        grad_norms: Norm of the gradient of each, before it was clipped.
        step: Steps done.
        limit: The mean loss above which a run has exploded.
    """
    first = step - len(losses) + 1
    for number, (loss, norm) in enumerate(zip(losses, grad_norms, strict=True), start=first):
        if not math.isfinite(loss) or not math.isfinite(norm):
            return Diverged(number, f"the loss is {loss:.4g} and the norm of the gradient {norm:.4g}")
    mean = sum(losses) / len(losses) if losses else 0.0
    if mean > limit:
        norm = max(grad_norms)
        return Diverged(
            step,
            f"the loss is {mean:.4g} and had to stay below {limit:.4g}, with gradients of a norm up to "
            f"{norm:.4g},",
        )
    return None


def mark_failed(path: Path, diverged: Diverged, newest: Path | None) -> None:
    """Write down that a run diverged; the same command then refuses to repeat it."""
    record = {
        "step": diverged.step,
        "problem": diverged.problem,
        "last_good_checkpoint": newest.name if newest else None,
    }
    write_text(RunFolder(path).failure_marker, json.dumps(record, indent=1) + "\n")


def failure_error(path: Path, diverged: Diverged, newest: Path | None) -> UsageError:
    """What a run that diverged ends with."""
    kept = f"the last good checkpoint is {newest.name}" if newest else "there is no checkpoint"
    return UsageError(f"{path}: {diverged}; {ADVICE}; {kept}")


def read_failure(path: Path) -> str | None:
    """Why the run in a folder failed and what to do about it, in one line; None if it did not.

    Args:
        path: The run folder.
    """
    if not RunFolder(path).has_diverged:
        return None
    file = RunFolder(path).failure_marker
    try:
        record = parse_json(file.read_bytes())
        problem = f"{record['problem']} at step {record['step']}"
        start = record["last_good_checkpoint"] or "the beginning"
    except (ValueError, KeyError, TypeError):
        problem, start = "its marker cannot be read", "its last checkpoint"
    return (
        f"{path} failed: {problem}; {ADVICE}, which is another run, or remove {file} to repeat this one "
        f"from {start}"
    )
