"""Muon for every weight that multiplies inputs, whatever the shape of the tensor that holds it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

View = Callable[[Tensor], Tensor]
"""A tensor as a view (stack, out, ...in) of it: matrices from all inputs to outputs, stacked."""

POLYNOMIAL = (3.4445, -4.7750, 2.0315)
"""a, b and c of Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/."""
SMALLEST_NORM = 1e-7
RMS_OF_ADAMW = 0.2
"""Root mean square of an update, which of AdamW's is 0.2 to 0.4 (Liu et al. 2025, arXiv:2502.16982)."""


class Muon(Optimizer):
    """Steps along the nearest orthogonal matrix to the Nesterov momentum of each weight.

    Of a weight with two dimensions the same as ``torch.optim.Muon`` with ``adjust_lr_fn="match_rms_adamw"``.

    Args:
        groups: torch's, each with its ``lr`` and its ``weight_decay``.
        views: Of each parameter in them.
        momentum: Decay of the running mean of gradients.
        ns_steps: Newton-Schulz iterations.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        views: Mapping[nn.Parameter, View],
        momentum: float = 0.95,
        ns_steps: int = 5,
    ) -> None:
        super().__init__(groups, {"momentum": momentum, "ns_steps": ns_steps})
        self._views = views

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[bad-override]
        """Update every parameter that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: nn.Parameter, gradient: Tensor, group: dict[str, Any]) -> None:
        state, momentum = self.state[parameter], group["momentum"]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        mean = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        direction = self._views[parameter](gradient.lerp(mean, momentum))
        weight = self._views[parameter](parameter)
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        for matrix, update in zip(weight, direction, strict=True):
            shape = (len(update), update[0].numel())
            step = orthogonalized(update.reshape(shape), group["ns_steps"]).view(update.shape)
            matrix.add_(step, alpha=-group["lr"] * (RMS_OF_ADAMW * math.sqrt(max(shape))))


def orthogonalized(matrix: Tensor, steps: int) -> Tensor:
    """Bring the singular values of a matrix near 1, in bfloat16, by Newton-Schulz iterations.

    Args:
        matrix: (O, I).
        steps: How many; each is X <- a X + (b A + c A A) X with A = X X^T.
    """
    a, b, c = POLYNOMIAL
    is_standing = matrix.shape[0] > matrix.shape[1]
    x = (matrix.mT if is_standing else matrix).bfloat16()
    x = x / x.norm().clamp(min=SMALLEST_NORM)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_standing else x
