"""How many updates a run has, and how many of them warm up; imports no transformers."""

from __future__ import annotations

import math

from pretrain.config import OptimConfig


def total_steps(optim: OptimConfig, num_rows: int, rows_per_step: int) -> int:
    """Optimizer updates of a run; what does not fill a step at the end of the last epoch is left out."""
    if optim.max_steps is not None:
        return optim.max_steps
    return max(1, math.floor(optim.num_train_epochs * num_rows / rows_per_step))


def num_warmup_steps(optim: OptimConfig, max_steps: int) -> int:
    """Updates before that with the peak rate; the first of them has the rate 0."""
    return math.ceil(optim.warmup_ratio * max_steps) if optim.warmup_steps is None else optim.warmup_steps
