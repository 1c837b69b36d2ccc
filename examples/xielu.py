"""xIELU, an activation with two learnable scalars (Huang and Schlag 2024): a variant in a file of its own.

The registry has it too, as ``xielu``; names are unique, so this one has another.

python pretrain/train.py configs/tiny.yaml --ffn examples/xielu.py:XIELU
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ffn_variants import FFNSpec, Option, UsageError


class XIELUActivation(nn.Module):
    """a_p x^2 + b x for x > 0, a_n (e^x - 1 - x) + b x elsewhere; a_p > 0 and a_n > b are learned.

    Args:
        init: Where a_p and a_n begin.
        beta: b, the slope at 0.
    """

    def __init__(self, init: float, beta: float):
        super().__init__()
        if not 0 <= beta < init:
            raise UsageError(f"my-xielu's options must be 0 <= beta < init, got beta {beta:g}, init {init:g}")
        self.beta = beta
        # Learned is what softplus makes a_p and a_n - b of, so that they stay above 0 and b.
        self.positive = nn.Parameter(torch.tensor(math.log(math.expm1(init))))
        self.negative = nn.Parameter(torch.tensor(math.log(math.expm1(init - beta))))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))  # bf16 would lose e^x - 1 - x
        above = F.softplus(self.positive) * wide.square()
        # Where x > 0 this branch is not taken, but e^x must be finite for its gradient.
        below = (self.beta + F.softplus(self.negative)) * (torch.expm1(wide.clamp(max=0)) - wide)
        return (torch.where(wide > 0, above, below) + self.beta * wide).to(x.dtype)


XIELU = FFNSpec(
    name="my-xielu",
    kind="activation",
    build=lambda intermediate_size, init, beta: XIELUActivation(init, beta),
    formula="a_p x^2 + b x for x > 0, a_n (e^x - 1 - x) + b x elsewhere",
    reference="Huang and Schlag 2024, arXiv:2411.13010",
    options={
        "init": Option(default=0.8, help="where a_p and a_n begin, above beta"),
        "beta": Option(default=0.5, minimum=0, help="b, the slope at 0; not learned"),
    },
    multiply_adds=lambda d, f, **_: 2 * d * f,
)
