"""`cheby-kan`: layers whose edges are Chebyshev polynomials of tanh(x), after ChebyKAN (SynodicMonth 2024).

y_o = sum_i sum_{k=0..n} c_iok T_k(tanh x_i). The coefficients have the name, the shape and the initialisation
of https://github.com/SynodicMonth/ChebyKAN; Sidharth et al. 2024, arXiv:2405.07200, is the paper of the idea.
The code is this project's own. Between the two layers stands a LayerNorm, as in its author's networks: of
what a first layer gives at the start, tanh leaves next to nothing but a constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from base import kan_layers
from ffn_variants.kernels.basis_linear import basis_linear
from ffn_variants.spec import FFNSpec
from ffn_variants.variants.polynomial_kan import with_norm


@dataclass(frozen=True)
class ChebyshevBasis:
    """T_0(tanh x) ... T_n(tanh x) by the recurrence T_{k+1}(u) = 2 u T_k(u) - T_{k-1}(u).

    Attributes:
        degree: n, at least 1.
    """

    degree: int

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate (N, I) inputs to (N, n + 1, I) features."""
        u = torch.tanh(x)
        polynomials = [torch.ones_like(u), u]
        for _ in range(self.degree - 1):
            polynomials.append(2 * u * polynomials[-1] - polynomials[-2])
        return torch.stack(polynomials, 1)


class ChebyKANLinear(nn.Module):
    """One Chebyshev layer from (..., I) to (..., O). T_0 = 1 serves as its bias.

    Args:
        in_features: I.
        out_features: O.
        degree: Highest degree n of the polynomials.

    Coefficients are drawn from torch's global generator, normal with deviation 1 / (I (n + 1)).
    """

    def __init__(self, in_features: int, out_features: int, degree: int = 4):
        super().__init__()
        self.degree = degree
        std = 1 / (in_features * (degree + 1))
        self.cheby_coeffs = nn.Parameter(torch.randn(in_features, out_features, degree + 1) * std)

    def forward(self, x: Tensor) -> Tensor:
        # (I, O, n + 1) to all inputs' T_0, then T_1, ...
        weight = self.cheby_coeffs.permute(1, 2, 0).flatten(1)
        return basis_linear(x, weight, ChebyshevBasis(self.degree))


class ChebyKANFFN(nn.Module):
    """Two Chebyshev layers in place of the whole feed-forward network: D to F to D.

    Args:
        hidden_size: D.
        intermediate_size: F.
        degree: Highest degree of the polynomials.
        layer_norm: Whether a LayerNorm stands between them, 1 or 0.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, degree: int = 4, layer_norm: int = 1):
        super().__init__()
        self.layers = with_norm(
            ChebyKANLinear(hidden_size, intermediate_size, degree),
            intermediate_size,
            ChebyKANLinear(intermediate_size, hidden_size, degree),
            layer_norm,
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


SPEC = FFNSpec(
    name="cheby-kan",
    kind="block",
    build=ChebyKANFFN,
    formula="per layer: sum_i sum_k c_iok T_k(tanh x_i)",
    reference=kan_layers.CHEBY_KAN.reference,
    options={**kan_layers.CHEBY_KAN.options, **kan_layers.HIDDEN_NORM},
    multiply_adds=lambda d, f, degree, **_: 2 * d * f * (degree + 1),
    earlier_sources=("1d0f0dc07509", "97f333400251"),
)
