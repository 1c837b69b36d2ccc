"""`xielu`: a parabola above zero and an integrated ELU below, both learned (Huang and Schlag 2024).

f(x) = a_p x^2 + b x for x > 0 and a_n (e^x - 1 - x) + b x elsewhere, with a_p > 0 and a_n > b learned, one of
each for a layer, and b = 0.5 fixed. arXiv:2411.13010; transformers has it in ``activations.py``, which clamps
x to at most -1e-6 below zero, as this does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from base.errors import UsageError
from base.options import Option
from ffn_variants.kernels.elementwise import elementwise
from ffn_variants.spec import FFNSpec


@dataclass(frozen=True)
class XIELUFunction:
    """The function of x and of what softplus makes a_p and a_n - b of.

    Attributes:
        beta: b, the slope at zero.
    """

    beta: float

    def __call__(self, x: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Evaluate (N, C) inputs with two scalars."""
        above = F.softplus(positive) * x * x
        # Where x > 0 this branch is not taken, but e^x must be finite for its gradient.
        below = (self.beta + F.softplus(negative)) * (torch.expm1(x.clamp(max=0)) - x)
        return torch.where(x > 0, above, below) + self.beta * x


class XIELU(nn.Module):
    """xIELU with two learnable scalars.

    Args:
        init: Where a_p and a_n begin.
        beta: b, the slope at zero; not learned.

    Raises:
        UsageError: Unless 0 <= beta < init.
    """

    def __init__(self, init: float = 0.8, beta: float = 0.5):
        super().__init__()
        if not 0 <= beta < init:
            raise UsageError(f"'xielu' options must be 0 <= beta < init, got beta {beta:g}, init {init:g}")
        self.function = XIELUFunction(beta)
        self.positive = nn.Parameter(torch.tensor([_inverse_softplus(init)]))
        self.negative = nn.Parameter(torch.tensor([_inverse_softplus(init - beta)]))

    def forward(self, x: Tensor) -> Tensor:
        return elementwise(self.function, x, self.positive, self.negative)


def _inverse_softplus(value: float) -> float:
    return value + math.log(-math.expm1(-value))


SPEC = FFNSpec(
    name="xielu",
    kind="activation",
    build=lambda _, init, beta: XIELU(init, beta),
    formula="a_p x^2 + b x for x > 0, a_n (e^x - 1 - x) + b x elsewhere; a_p, a_n of a layer",
    reference="Huang and Schlag 2024, arXiv:2411.13010",
    options={
        "init": Option(default=0.8, help="where a_p and a_n begin, above beta"),
        "beta": Option(default=0.5, minimum=0, help="b, the slope at 0; not learned"),
    },
    multiply_adds=lambda d, f, **_: 2 * d * f,
    earlier_sources=("c9fb46ba9150", "fcfb03159df1", "0aba78d61fba"),
)
