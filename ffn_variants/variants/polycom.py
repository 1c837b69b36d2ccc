"""`polyrelu` and `polynorm`: polynomials of third degree as activations (PolyCom, Zhuo et al. 2024).

PolyReLU is a_1 r + a_2 r^2 + a_3 r^3 + a_0 with r = max(0, x). PolyNorm is a_1 n(x) + a_2 n(x^2) + a_3 n(x^3)
+ a_0, where n divides a token's F values by their root mean square; so it is no function of one number.
arXiv:2411.03884; names, shapes and initial values (1/3, and a_0 = 0) are those of
https://github.com/BryceZhuo/PolyCom. The code is this project's own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ffn_variants.kernels.elementwise import Function, elementwise
from ffn_variants.spec import FFNSpec

EPSILON = 1e-6
"""Added to the mean square in PolyNorm."""


def polyrelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """a_3 r^3 + a_2 r^2 + a_1 r + a_0 of (N, F) inputs; weight (3,) from a_3 down, bias (1,)."""
    r = torch.relu(x)
    return ((weight[0] * r + weight[1]) * r + weight[2]) * r + bias


def polynorm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """a_3 n(x^3) + a_2 n(x^2) + a_1 n(x) + a_0 of (N, F) inputs; weight (3,) from a_3 down, bias (1,)."""
    square = x * x
    powers = square * x, square, x
    return sum((a * _normalized(power) for a, power in zip(weight.unbind(), powers, strict=True)), bias)


def _normalized(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON)


class PolyCom(nn.Module):
    """One of the two functions, with four coefficients for a layer.

    Args:
        function: ``polyrelu`` or ``polynorm``.
    """

    def __init__(self, function: Function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.full((3,), 1 / 3))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return elementwise(self.function, x, self.weight, self.bias)


def _polycom(function: Function, formula: str, *earlier_sources: str) -> FFNSpec:
    return FFNSpec(
        name=function.__name__,  # type: ignore[missing-attribute]
        kind="activation",
        build=lambda _: PolyCom(function),
        formula=formula,
        reference="Zhuo et al. 2024, arXiv:2411.03884",
        multiply_adds=lambda d, f: 2 * d * f,
        earlier_sources=earlier_sources,
    )


SPECS = (
    _polycom(
        polyrelu,
        "a_0 + a_1 r + a_2 r^2 + a_3 r^3, r = max(0, x); a of a layer",
        "37d8d4a7ab5b",
        "295e46383664",
        "b60d8a4706c2",
    ),
    _polycom(
        polynorm,
        "a_0 + a_1 n(x) + a_2 n(x^2) + a_3 n(x^3), n divides by the RMS over F; a of a layer",
        "274ecba44b14",
        "b90751e7d4b6",
        "1d24a80a1e2f",
    ),
)
