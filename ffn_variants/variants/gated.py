"""Gated feed-forward networks, W_2 (act(W x) * V x), without biases (Shazeer 2020, arXiv:2002.05202).

`glu` (sigmoid), `bilinear` (no activation), `reglu`, `geglu` and `swiglu` are the paper's. `relu2-glu`, which
gates with max(0, x)^2, is BitNet's and Q-Sparse's (Wang et al. 2024, arXiv:2407.10969, equation 11),
and `clamped-swiglu` is the form of gpt-oss (OpenAI 2025), here without its biases.

They hold three D x F matrices where a stock FFN holds two, so at equal F they have 1.5 times its parameters
and operations; the paper compares them at two thirds of F.

`no-ffn`: no feed-forward network at all, the floor under all others; the layer is its attention.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ffn_variants.kernels.elementwise import elementwise
from ffn_variants.spec import FFNSpec
from ffn_variants.variants.activations import GELU, SquaredReLU

CLAMP = 7.0
STEEPNESS = 1.702
"""Of the sigmoid; x sigmoid(1.702 x) is near GELU (Hendrycks and Gimpel 2016)."""


class GatedFFN(nn.Module):
    """W_2 (act(W x) * V x) in place of the whole feed-forward network: D to F to D.

    Args:
        hidden_size: D.
        intermediate_size: F, the channels of the gate and of what it gates.
        gate: act, elementwise.

    ``c_fc`` holds W above V, so that one matrix product makes both. A model draws every element of a linear
    layer alike, so they start as two layers would.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, gate: nn.Module):
        super().__init__()
        self.c_fc = nn.Linear(hidden_size, 2 * intermediate_size, bias=False)
        self.gate = gate
        self.c_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(self.gated(self.c_fc(x)))

    def gated(self, projected: Tensor) -> Tensor:
        """Multiply act of the first half of the channels by the second half: (..., 2F) to (..., F)."""
        gate, value = projected.chunk(2, dim=-1)
        return self.gate(gate) * value


class ClampedSwiGLU(GatedFFN):
    """W_2 (g sigmoid(1.702 g) (v + 1)) with g at most 7 and v from -7 to 7.

    g is the first half of the channels and v the second, as elsewhere here; gpt-oss has them in turns.
    """

    def gated(self, projected: Tensor) -> Tensor:
        return elementwise(clamped_swiglu, projected)


def clamped_swiglu(projected: Tensor) -> Tensor:
    """Compute g sigmoid(1.702 g) (v + 1) of (N, 2F) clamped halves g and v, to (N, F)."""
    gate, value = projected.chunk(2, dim=-1)
    gate, value = gate.clamp(max=CLAMP), value.clamp(-CLAMP, CLAMP)
    return gate * torch.sigmoid(STEEPNESS * gate) * (value + 1)


def _gated(
    name: str,
    gate: Callable[[], nn.Module],
    formula: str,
    reference: str = "Shazeer 2020, arXiv:2002.05202",
    ffn: type[GatedFFN] = GatedFFN,
) -> FFNSpec:
    return FFNSpec(
        name=name,
        kind="block",
        build=lambda d, f: ffn(d, f, gate()),
        formula=formula,
        reference=reference,
        multiply_adds=lambda d, f: 3 * d * f,
    )


GATED_SPECS = (
    _gated("glu", nn.Sigmoid, "W_2 (sigmoid(W x) * V x), no biases: 3DF parameters"),
    _gated("bilinear", nn.Identity, "W_2 (W x * V x), no biases: 3DF parameters"),
    _gated("reglu", nn.ReLU, "W_2 (max(0, W x) * V x), no biases: 3DF parameters"),
    _gated(
        "relu2-glu",
        SquaredReLU,
        "W_2 (max(0, W x)^2 * V x), no biases: 3DF parameters",
        "Q-Sparse, Wang et al. 2024, arXiv:2407.10969, equation 11",
    ),
    # GELU has its tanh form, as in the paper's code base: ``gated-gelu`` of T5 1.1 is ``gelu_new``.
    _gated("geglu", GELU, "W_2 (GELU_tanh(W x) * V x), no biases: 3DF parameters"),
    _gated("swiglu", nn.SiLU, "W_2 (SiLU(W x) * V x), no biases: 3DF parameters"),
    _gated(
        "clamped-swiglu",
        nn.Identity,
        "W_2 (g sigmoid(1.702 g) * (v + 1)), g = min(W x, 7), v = V x in [-7, 7], no biases",
        "gpt-oss, OpenAI 2025, arXiv:2508.10925",
        ClampedSwiGLU,
    ),
)


class NoFFN(nn.Module):
    """Zeros in place of the whole feed-forward network, which the layer's residual connection goes past."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 0  # a gradient of zeros is one; and what is not finite upstream shows


NO_FFN_SPEC = FFNSpec(
    name="no-ffn",
    kind="block",
    build=lambda d, f: NoFFN(),
    formula="0: attention alone, no parameters; ignores F",
    reference="control: the floor",
    multiply_adds=lambda d, f: 0,
)
