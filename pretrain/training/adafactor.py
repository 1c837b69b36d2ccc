"""Adafactor (Shazeer and Stern 2018, arXiv:1804.04235) that never asks the device for a number.

``torch.optim.Adafactor`` reads two norms of every parameter back at each update, and its step counters too
once they lie on a GPU. Here they stay tensors. The arithmetic is torch's up to rounding. So are the names and
shapes of the state: a checkpoint of one is read by the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

BETA2_DECAY = -0.8
SMALLEST_SCALE = 1e-3
"""What scales the update of a parameter that is, or began, at zero (the paper's epsilon 2)."""


class DeviceAdafactor(Optimizer):
    """Adafactor with T5's settings and ``torch.optim.Adafactor``'s results.

    Args:
        groups: Parameters with their ``weight_decay``.
        lr: The relative learning rate. Put a () float32 tensor beside the parameters into the groups to have
            one that changes without the host.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float) -> None:
        # torch refuses to capture an optimizer in a CUDA graph that does not say it may.
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0, "capturable": True})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[bad-override]
        """Update every parameter that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if parameters:
                self._step(parameters, group["lr"], group["weight_decay"])

    def _step(self, parameters: list[Tensor], lr: Tensor, weight_decay: float) -> None:
        states = [self._state(parameter) for parameter in parameters]
        torch._foreach_add_([state["step"] for state in states], 1.0)
        steps = torch.stack([state["step"] for state in states])  # a parameter with new knots begins anew
        weights = (steps**BETA2_DECAY).unbind()
        rates = torch.minimum(lr, steps.rsqrt()) * _root_mean_squares(parameters).clamp(min=SMALLEST_SCALE)
        if weight_decay:
            torch._foreach_mul_(parameters, 1 - lr * weight_decay)
        updates = _directions(parameters, states, weights)
        rates = -rates / _root_mean_squares(updates).clamp(min=1.0)
        for parameter, update, rate in zip(parameters, updates, rates.unbind(), strict=True):
            parameter.addcmul_(update, rate)

    def _state(self, parameter: Tensor) -> dict[str, Tensor]:
        """A parameter's step counter and moments, all beside it."""
        state = self.state[parameter]
        if not state:
            state["step"] = parameter.new_zeros((), dtype=torch.float32)
            if parameter.ndim > 1:
                state["row_var"] = parameter.new_zeros((*parameter.shape[:-1], 1))
                state["col_var"] = parameter.new_zeros((*parameter.shape[:-2], 1, parameter.shape[-1]))
            else:
                state["variance"] = torch.zeros_like(parameter)
        return state


def _directions(
    parameters: list[Tensor], states: list[dict[str, Tensor]], weights: Sequence[Tensor]
) -> list[Tensor]:
    """Gradients over the roots of their running variances; of matrices these are kept by rows and columns."""
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    tiny = torch.finfo(parameters[0].dtype).eps
    rows, columns = _mean_squares(grads, -1), _mean_squares(grads, -2)
    directions = [
        _variance(state, grad, weight, rows, columns, tiny)
        for state, grad, weight in zip(states, grads, weights, strict=True)
    ]
    torch._foreach_clamp_min_(directions, tiny * tiny)
    torch._foreach_rsqrt_(directions)
    torch._foreach_mul_(directions, grads)
    return directions


def _mean_squares(grads: list[Tensor], dim: int) -> Iterator[Tensor]:
    """Mean squares of the matrices among gradients along a dimension, which stays as one of size 1."""
    matrices = [grad for grad in grads if grad.ndim > 1]
    if not matrices:
        return iter(())
    # As torch: a norm squared makes no tensor of the gradient's size.
    means = [torch.linalg.vector_norm(grad, dim=dim, keepdim=True) for grad in matrices]
    torch._foreach_mul_(means, means)
    torch._foreach_div_(means, [float(grad.shape[dim]) for grad in matrices])
    return iter(means)


def _variance(
    state: dict[str, Tensor],
    grad: Tensor,
    weight: Tensor,
    rows: Iterator[Tensor],
    columns: Iterator[Tensor],
    tiny: float,
) -> Tensor:
    """Bring a running variance up to date, a matrix by the next of ``rows`` and ``columns``; a copy."""
    if grad.ndim < 2:
        return state["variance"].lerp_(grad * grad, weight).clone()
    by_row = state["row_var"].lerp_(next(rows), weight)
    by_column = state["col_var"].lerp_(next(columns), weight)
    return by_row * (by_column / by_row.mean(-2, keepdim=True).clamp_(min=tiny))


def _root_mean_squares(tensors: list[Tensor]) -> Tensor:
    """(len(tensors),) root mean squares."""
    norms = list(torch._foreach_norm(tensors))
    torch._foreach_div_(norms, [tensor.numel() ** 0.5 for tensor in tensors])
    return torch.stack(norms)
