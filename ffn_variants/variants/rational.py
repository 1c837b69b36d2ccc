"""`rational`: a learned rational function as the activation, the Padé activation unit (Molina et al. 2019).

F(x) = P(x) / (1 + |A(x)|) with P of degree 5 and A(x) = b_1 x + ... + b_4 x^4, so it has no pole. All the
channels of a layer share the ten coefficients, as in the paper (arXiv:1907.06732, its safe form; version B of
https://github.com/ml-research/rational_activations, whose default, as the authors' first code, has the sum of
the |b_k x^k| below). `gr-kan` has such functions for groups of channels, with the same kernels. It starts as
leaky ReLU, as its authors' does, or as another function; the fits are this project's own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from base.options import Option
from ffn_variants.spec import FFNSpec
from ffn_variants.variants.gr_kan import grouped_rational, initial_coefficients

LEAKY_SLOPE = 0.01
LEAKY_EVEN_PART = (2.4849775, 1.9115540, 7.2758852, 0.66731072)
"""a_2, a_4, b_2, b_4 of the least-squares fit to 0.495 |x|, the even part of leaky ReLU, over [-3, 3].

Its largest error is 0.027, at |x| = 0.12. ``tests/unit/ffn_variants/variants/test_rational.py`` fits it
again; see ``EVEN_PARTS`` of gr-kan for the others.
"""


def start_of(function: str) -> tuple[list[float], list[float]]:
    """Return a_0 ... a_5 and b_1 ... b_4 of ``"leaky-relu"``, ``"gelu"``, ``"swish"`` or ``"identity"``."""
    if function != "leaky-relu":
        return initial_coefficients(function)
    a_2, a_4, b_2, b_4 = LEAKY_EVEN_PART
    slope = (1 + LEAKY_SLOPE) / 2
    return [0.0, slope, a_2, slope * b_2, a_4, slope * b_4], [0.0, b_2, 0.0, b_4]


class Rational(nn.Module):
    """One rational function for all channels.

    Args:
        init: What it starts as.
    """

    def __init__(self, init: str = "leaky-relu"):
        super().__init__()
        numerator, denominator = start_of(init)
        self.numerator = nn.Parameter(torch.tensor(numerator))
        self.denominator = nn.Parameter(torch.tensor(denominator))

    def forward(self, x: Tensor) -> Tensor:
        return grouped_rational(x, self.numerator.unsqueeze(0), self.denominator.unsqueeze(0))


SPEC = FFNSpec(
    name="rational",
    kind="activation",
    build=lambda _, init: Rational(init),
    formula="P(x) / (1 + |A(x)|), P of degree 5, A of degree 4; ten coefficients of a layer",
    reference="Molina et al. 2019, arXiv:1907.06732",
    options={
        "init": Option(
            default="leaky-relu",
            choices=("leaky-relu", "gelu", "swish", "identity"),
            help="what it starts as",
        )
    },
    multiply_adds=lambda d, f, **_: 2 * d * f,
    earlier_sources=("278e6aac0405",),
)
