"""How much can be left out at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

STEPS = 16


def largest_levels(change: Callable[[Tensor], Tensor], num_outputs: int, threshold: float) -> Tensor:
    """Search, for each output by itself, for the largest level that changes it by no more than a threshold.

    Args:
        change: From (outputs,) levels, below which terms are left out, to (outputs,) changes.
        num_outputs: Outputs.
        threshold: Largest change allowed. No level is larger: one term alone may be all of the change.

    Returns:
        (outputs,) levels whose changes were all seen to be allowed; at 0, nothing but zeros is left out.
    """
    high = torch.full((num_outputs,), threshold, dtype=torch.float64)
    low = high * 1e-6
    safe = torch.zeros_like(high)
    for _ in range(STEPS):
        middle = (low * high).sqrt()
        allowed = change(middle).to(safe) <= threshold
        safe = torch.where(allowed, middle, safe)
        low, high = torch.where(allowed, middle, low), torch.where(allowed, high, middle)
    return safe
