"""Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) for matrices, AdamW for the rest.

Muon's update of a matrix is its momentum with all singular values brought near 1, by five Newton-Schulz
iterations in bfloat16. ``torch.optim.Muon`` computes it; on a GPU ``DeviceMuon`` does, which never asks the
device for a number.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from transformers import PreTrainedModel


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Weights of the linear layers inside a network, which are what Muon is for.

    Embeddings and output head are left out, as in the works of Jordan and of Liu et al. (2025,
    arXiv:2502.16982): their rows belong to single tokens. So is whatever a layer keeps outside of a
    ``nn.Linear``, as its shape does not say what it is: coefficients of KANs are stacks of numbers of edges,
    a memory's values are rows that are looked up, and some two-dimensional ones are knots.
    """
    head = model.get_output_embeddings() if isinstance(model, PreTrainedModel) else None
    modules = list(model.modules())
    tables = {id(m.weight) for m in modules if isinstance(m, nn.Embedding) or m is head}
    inside = {id(m.weight) for m in modules if isinstance(m, nn.Linear)} - tables
    return [parameter for parameter in model.parameters() if id(parameter) in inside]


class MuonWithAdamW(Optimizer):
    """Two optimizers as one, with one list of groups and one state.

    Args:
        muon: Of the matrices; one group.
        adamw: Of the other parameters.
    """

    def __init__(self, muon: Optimizer, adamw: Optimizer) -> None:
        super().__init__([*muon.param_groups, *adamw.param_groups], {})
        self._muon, self._adamw = muon, adamw

    def step(self, closure: Any = None) -> None:  # type: ignore[bad-override]
        """Update every parameter that has a gradient."""
        assert closure is None
        # At each step, as load_state_dict makes both anew.
        self._muon.param_groups, self._adamw.param_groups = self.param_groups[:1], self.param_groups[1:]
        for part in (self._muon, self._adamw):
            part.state = self.state
            part.step()


class DeviceMuon(torch.optim.Muon):
    """``torch.optim.Muon`` with the adjustment ``match_rms_adamw``, and with its results up to rounding.

    torch's reads a learning rate that is a tensor back at each matrix, and orthogonalises one after the
    other. Here matrices of one shape are one batch. The state is torch's: a checkpoint of one is read by the
    other.
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[bad-override]
        """Update every matrix that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            matrices = [parameter for parameter in group["params"] if parameter.grad is not None]
            if matrices:
                self._step(matrices, group)

    def _step(self, matrices: list[Tensor], group: dict[str, Any]) -> None:
        grads = [matrix.grad for matrix in matrices if matrix.grad is not None]
        buffers = [self._buffer(matrix) for matrix in matrices]
        torch._foreach_lerp_(buffers, grads, 1 - group["momentum"])
        directions = torch._foreach_lerp(grads, buffers, group["momentum"])  # Nesterov's
        if group["weight_decay"]:
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
        by_shape: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place, matrix in enumerate(matrices):
            by_shape[min(matrix.shape), max(matrix.shape)].append(place)
        for (_, longer), places in by_shape.items():
            batch = torch.stack([_lying(directions[place]) for place in places]).bfloat16()
            updates = newton_schulz(batch, group["ns_coefficients"], group["ns_steps"], group["eps"])
            updates = updates.to(matrices[0].dtype) * (-0.2 * longer**0.5 * group["lr"])
            for place, update in zip(places, updates.unbind(), strict=True):
                matrices[place].add_(update if matrices[place].shape == update.shape else update.mT)

    def _buffer(self, matrix: Tensor) -> Tensor:
        """A matrix's running mean of gradients."""
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        return state["momentum_buffer"]


def newton_schulz(
    matrices: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Bring the singular values of matrices near 1, in the matrices' own precision.

    Args:
        matrices: (N, rows, columns), no more rows than columns.
        coefficients: a, b and c: a singular value s, at most 1, becomes a s + b s^3 + c s^5 in each step.
        steps: So often.
        eps: What a norm is at least.

    Returns:
        (N, rows, columns).
    """
    a, b, c = coefficients
    result = matrices / matrices.norm(dim=(-2, -1), keepdim=True).clamp_(min=eps)
    for _ in range(steps):
        gram = result @ result.mT
        result = torch.baddbmm(result, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), result, beta=a)
    return result


def _lying(matrix: Tensor) -> Tensor:
    """A matrix, transposed where it has more rows than columns."""
    return matrix.mT if matrix.shape[0] > matrix.shape[1] else matrix
