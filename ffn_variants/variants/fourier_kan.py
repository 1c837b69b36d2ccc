"""`fourier-kan`: layers whose edges are truncated Fourier series, after FourierKAN (GistNoesis 2024).

y_j = bias_j + sum_i sum_{k=1..G} a_jik cos(k x_i) + b_jik sin(k x_i). The coefficients have the name,
the shape and, at ``init_scale`` 1, the initialisation of https://github.com/GistNoesis/FourierKAN; the FFN's
start at a tenth of that (``FourierKANFFN``). The bias is a vector, as in a linear layer. The code is this
project's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from base import kan_layers
from base.options import Option
from ffn_variants.kernels.basis_linear import basis_linear
from ffn_variants.spec import FFNSpec


@dataclass(frozen=True)
class FourierBasis:
    """cos(x) ... cos(Gx), sin(x) ... sin(Gx) from one cosine and one sine, by the angle sum identities.

    Attributes:
        grid_size: G, the number of frequencies.
    """

    grid_size: int

    def __call__(self, x: Tensor) -> Tensor:
        """Evaluate (N, I) inputs to (N, 2G, I) features."""
        cosines, sines = [x.cos()], [x.sin()]
        for _ in range(self.grid_size - 1):
            last_cosine, last_sine = cosines[-1], sines[-1]
            cosines.append(last_cosine * cosines[0] - last_sine * sines[0])
            sines.append(last_sine * cosines[0] + last_cosine * sines[0])
        return torch.stack(cosines + sines, 1)


class FourierKANLinear(nn.Module):
    """One Fourier layer from (..., I) to (..., O).

    Args:
        in_features: I.
        out_features: O.
        grid_size: G, the number of frequencies.
        init_scale: Standard deviation of an output at the start.
        bias: Whether outputs have one.

    Coefficients are drawn from torch's global generator, normal with deviation init_scale / sqrt(I G):
    as cos^2 + sin^2 = 1, every output then has variance init_scale^2 whatever the input.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        grid_size: int = 5,
        init_scale: float = 1.0,
        bias: bool = True,
    ):
        super().__init__()
        self.in_features, self.out_features, self.grid_size = in_features, out_features, grid_size
        std = init_scale / math.sqrt(in_features * grid_size)
        # [0] multiplies the cosines, [1] the sines.
        self.fouriercoeffs = nn.Parameter(torch.randn(2, out_features, in_features, grid_size) * std)
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        # (2, O, I, G) to all inputs' first cosine, second cosine, ..., first sine, ...
        weight = self.fouriercoeffs.permute(1, 0, 3, 2).reshape(self.out_features, -1)
        out = basis_linear(x, weight, FourierBasis(self.grid_size))
        return out if self.bias is None else out + self.bias.to(out.dtype)


class FourierKANFFN(nn.Module):
    """Two Fourier layers in place of the whole feed-forward network: D to F to D.

    Args:
        hidden_size: D.
        intermediate_size: F.
        grid_size: Number of frequencies of every edge.
        init_scale: Standard deviation of each layer's output at the start. FourierKAN has 1, which drowns the
            0.02 of a model's embeddings: ``configs/tiny.yaml`` then ended at a held-out loss of 4.19 nats, at
            0.1 at 2.07, at 0.02 at 2.09 (one seed each).
    """

    def __init__(self, hidden_size: int, intermediate_size: int, grid_size: int = 5, init_scale: float = 0.1):
        super().__init__()
        self.layers = nn.Sequential(
            FourierKANLinear(hidden_size, intermediate_size, grid_size, init_scale),
            FourierKANLinear(intermediate_size, hidden_size, grid_size, init_scale),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


SPEC = FFNSpec(
    name="fourier-kan",
    kind="block",
    build=FourierKANFFN,
    formula="per layer: sum_i sum_k a_oik cos(k x_i) + b_oik sin(k x_i), + bias_o",
    reference=kan_layers.FOURIER_KAN.reference,
    options={
        **kan_layers.FOURIER_KAN.options,
        "init_scale": Option(
            default=0.1,
            help="standard deviation of each layer's output at the start; FourierKAN has 1, which drowns "
            "a model's embeddings",
        ),
    },
    multiply_adds=lambda d, f, grid_size, **_: 4 * d * f * grid_size,
    earlier_sources=(
        "8553da5e7ec0",
        "aefe4dbcfeea",
        "ff82f69df7fa",
        "56c8ef546d11",
        "b0db1694e08c",
        "2acdfe5ab857",
    ),
)
