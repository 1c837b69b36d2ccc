"""Noticing a run that no more steps can save."""

from __future__ import annotations

import math
from collections.abc import Sequence


class Diverged(Exception):  # noqa: N818  as Stopped, it is an event
    """A run diverged.

    Attributes:
        step: The number of the step at fault, counted from 1.
        problem: What is wrong with it.
    """

    def __init__(self, step: int, problem: str) -> None:
        super().__init__(f"{problem} at step {step}")
        self.step, self.problem = step, problem


def find_problem(
    losses: Sequence[float], grad_norms: Sequence[float], step: int, limit: float
) -> tuple[int, str] | None:
    """Look for what no run recovers from in the steps since the last logged line.

    Args:
        losses: Loss of each of those steps, in nats per target token.
        grad_norms: Norm of the gradient of each, before it was clipped.
        step: Steps done.
        limit: The mean loss above which a run has exploded.

    Returns:
        The number of the step at fault, counted from 1, and what is wrong with it; None if nothing is.
    """
    first = step - len(losses) + 1
    for number, (loss, norm) in enumerate(zip(losses, grad_norms, strict=True), start=first):
        if not math.isfinite(loss):
            return number, f"the loss is {loss}"
        if not math.isfinite(norm):
            return number, f"the norm of the gradient is {norm}"
    mean = sum(losses) / len(losses) if losses else 0.0
    if mean > limit:
        return step, f"the loss is {mean:.4g} and had to stay below {limit:.4g}"
    return None
