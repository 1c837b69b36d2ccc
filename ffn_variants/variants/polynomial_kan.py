"""`jacobi-kan` and `hermite-kan`: layers whose edges are orthogonal polynomials of tanh(x).

y_o = sum_i sum_{k=0..n} c_iok P_k(tanh x_i). `jacobi-kan` is after JacobiKAN (SpaceLearner 2024), with the
Jacobi polynomials of alpha = beta = 1; alpha = beta = 0 makes them Legendre's. `hermite-kan` is after
HermiteKAN (Boris-73-TA/OrthogPolyKANs 2024), with the physicists' Hermite polynomials. Coefficients have the
shape of theirs. So has their initial deviation, 1 / (I (n + 1)), but that a Hermite polynomial's is divided
by sqrt(2^k k!), its norm: H_4(0) is 12, which would drown the 0.02 of a model's embeddings. The code is this
project's own; `cheby-kan` is the third of the kind.

Between the two layers stands a LayerNorm, as in the networks of the sources, whose authors call it
necessary: of what a first layer gives at the start, tanh leaves next to nothing but a constant. With the
option ``layer_norm`` at 0 there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from base import kan_layers
from base.errors import UsageError
from ffn_variants.kernels.basis_linear import Basis, basis_linear
from ffn_variants.spec import FFNSpec


@dataclass(frozen=True)
class JacobiBasis:
    """P_0(tanh x) ... P_n(tanh x), orthogonal for the weight (1 - u)^alpha (1 + u)^beta, by their recurrence.

    Attributes:
        degree: n, at least 1.
        alpha: Above -1.
        beta: Above -1.
    """

    degree: int
    alpha: float
    beta: float

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate (N, I) inputs to (N, n + 1, I) features."""
        a, b = self.alpha, self.beta
        u = torch.tanh(x)
        polynomials = [torch.ones_like(u), ((a + b + 2) / 2) * u + (a - b) / 2]
        for n in range(2, self.degree + 1):
            s = 2 * n + a + b
            whole = 2 * n * (n + a + b) * (s - 2)
            slope, shift = (s - 1) * s * (s - 2) / whole, (s - 1) * (a * a - b * b) / whole
            last = 2 * (n + a - 1) * (n + b - 1) * s / whole
            polynomials.append((slope * u + shift) * polynomials[-1] - last * polynomials[-2])
        return torch.stack(polynomials, 1)


@dataclass(frozen=True)
class HermiteBasis:
    """H_0(tanh x) ... H_n(tanh x) by the recurrence H_{k+1}(u) = 2 u H_k(u) - 2 k H_{k-1}(u).

    Attributes:
        degree: n, at least 1.
    """

    degree: int

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate (N, I) inputs to (N, n + 1, I) features."""
        u = torch.tanh(x)
        polynomials = [torch.ones_like(u), 2 * u]
        for k in range(1, self.degree):
            polynomials.append(2 * (u * polynomials[-1] - k * polynomials[-2]))
        return torch.stack(polynomials, 1)


class PolynomialKANLinear(nn.Module):
    """One layer of polynomials from (..., I) to (..., O). P_0 = 1 serves as its bias.

    Args:
        in_features: I.
        out_features: O.
        basis: The polynomials, ``len(norms)`` of them.
        norms: What the initial deviation of each polynomial's coefficients is divided by.

    Coefficients are drawn from torch's global generator, normal.
    """

    def __init__(self, in_features: int, out_features: int, basis: Basis, norms: Sequence[float]):
        super().__init__()
        self.basis = basis
        deviations = torch.tensor([1 / (in_features * len(norms) * norm) for norm in norms])
        self.coefficients = nn.Parameter(torch.randn(in_features, out_features, len(norms)) * deviations)

    def forward(self, x: Tensor) -> Tensor:
        # (I, O, n + 1) to all inputs' P_0, then P_1, ...
        weight = self.coefficients.permute(1, 2, 0).flatten(1)
        return basis_linear(x, weight, self.basis)


def with_norm(hidden: nn.Module, width: int, output: nn.Module, layer_norm: int) -> nn.Sequential:
    """Stack two layers, with a LayerNorm of the ``width`` hidden channels between them or without one."""
    return nn.Sequential(hidden, *([nn.LayerNorm(width)] if layer_norm else []), output)


class PolynomialKANFFN(nn.Module):
    """Two layers of polynomials in place of the whole feed-forward network: D to F to D.

    Args:
        hidden_size: D.
        intermediate_size: F.
        basis: The polynomials.
        norms: As in ``PolynomialKANLinear``.
        layer_norm: Whether a LayerNorm stands between them, 1 or 0.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        basis: Basis,
        norms: Sequence[float],
        layer_norm: int = 1,
    ):
        super().__init__()
        self.layers = with_norm(
            PolynomialKANLinear(hidden_size, intermediate_size, basis, norms),
            intermediate_size,
            PolynomialKANLinear(intermediate_size, hidden_size, basis, norms),
            layer_norm,
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def _jacobi(
    hidden_size: int, intermediate_size: int, degree: int, alpha: float, beta: float, layer_norm: int
) -> nn.Module:
    if min(alpha, beta) <= -1:
        raise UsageError(
            f"'jacobi-kan' options alpha and beta must be above -1, got alpha {alpha:g}, beta {beta:g}"
        )
    basis = JacobiBasis(degree, alpha, beta)
    return PolynomialKANFFN(hidden_size, intermediate_size, basis, [1.0] * (degree + 1), layer_norm)


def _hermite(hidden_size: int, intermediate_size: int, degree: int, layer_norm: int) -> nn.Module:
    norms = [math.sqrt(2**k * math.factorial(k)) for k in range(degree + 1)]
    return PolynomialKANFFN(hidden_size, intermediate_size, HermiteBasis(degree), norms, layer_norm)


JACOBI_SPEC = FFNSpec(
    name="jacobi-kan",
    kind="block",
    build=_jacobi,
    formula="per layer: sum_i sum_k c_iok P_k(tanh x_i), Jacobi polynomials; Legendre at alpha = beta = 0",
    reference=kan_layers.JACOBI_KAN.reference,
    options={**kan_layers.JACOBI_KAN.options, **kan_layers.HIDDEN_NORM},
    multiply_adds=lambda d, f, degree, **_: 2 * d * f * (degree + 1),
    earlier_sources=("196f0339024d", "931c4c670899"),
)

HERMITE_SPEC = FFNSpec(
    name="hermite-kan",
    kind="block",
    build=_hermite,
    formula="per layer: sum_i sum_k c_iok H_k(tanh x_i), Hermite polynomials",
    reference=kan_layers.HERMITE_KAN.reference,
    options={**kan_layers.HERMITE_KAN.options, **kan_layers.HIDDEN_NORM},
    multiply_adds=lambda d, f, degree, **_: 2 * d * f * (degree + 1),
    earlier_sources=("cbb288d75cbd", "c582fa178616"),
)
