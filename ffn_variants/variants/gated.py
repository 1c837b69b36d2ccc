"""`geglu` and `swiglu`: gated feed-forward networks, W_2 (act(W x) * V x), without biases (Shazeer 2020).

They hold three D x F matrices where a stock FFN holds two, so at equal F they have 1.5 times its parameters
and operations; the paper compares them at two thirds of F. arXiv:2002.05202
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from ffn_variants.spec import FFNSpec


def geglu(projected: Tensor) -> Tensor:
    """Multiply GELU of the first half of the channels by the second half: (..., 2F) to (..., F).

    GELU has its tanh form, as in the paper's code base: ``gated-gelu`` of T5 1.1 is ``gelu_new``.
    """
    gate, value = projected.chunk(2, dim=-1)
    return F.gelu(gate, approximate="tanh") * value


def swiglu(projected: Tensor) -> Tensor:
    """Multiply SiLU of the first half of the channels by the second half: (..., 2F) to (..., F)."""
    gate, value = projected.chunk(2, dim=-1)
    return F.silu(gate) * value


class GatedFFN(nn.Module):
    """W_2 (act(W x) * V x) in place of the whole feed-forward network: D to F to D.

    Args:
        hidden_size: D.
        intermediate_size: F, the channels of the gate and of what it gates.
        gate: ``geglu`` or ``swiglu``.

    ``c_fc`` holds W above V, so that one matrix product makes both. A model draws every element of a linear
    layer alike, so they start as two layers would.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, gate: Callable[[Tensor], Tensor]):
        super().__init__()
        self.c_fc = nn.Linear(hidden_size, 2 * intermediate_size, bias=False)
        self.gate = gate
        self.c_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(self.gate(self.c_fc(x)))


def _gated(gate: Callable[[Tensor], Tensor], formula: str) -> FFNSpec:
    return FFNSpec(
        name=gate.__name__,
        kind="block",
        build=lambda d, f: GatedFFN(d, f, gate),
        formula=formula,
        reference="Shazeer 2020, arXiv:2002.05202",
        multiply_adds=lambda d, f: 3 * d * f,
    )


SPECS = (
    _gated(geglu, "W_2 (GELU_tanh(W x) * V x), no biases: 3DF parameters"),
    _gated(swiglu, "W_2 (SiLU(W x) * V x), no biases: 3DF parameters"),
)
