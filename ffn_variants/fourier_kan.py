"""`fourier-kan`: layers whose edges are truncated Fourier series, after FourierKAN (GistNoesis 2024).

y_j = bias_j + sum_i sum_{k=1..G} a_jik cos(k x_i) + b_jik sin(k x_i). The coefficients have the name,
the shape and the initialisation of https://github.com/GistNoesis/FourierKAN; the bias is a vector, as in a
linear layer. The code is this project's own.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ffn_variants.options import Option
from ffn_variants.spec import FFNSpec


class FourierKANLinear(nn.Module):
    """One Fourier layer from (..., I) to (..., O).

    Args:
        in_features: I.
        out_features: O.
        grid_size: G, the number of frequencies.
        init_scale: Standard deviation of an output at the start.

    Coefficients are drawn from torch's global generator, normal with deviation init_scale / sqrt(I G):
    as cos^2 + sin^2 = 1, every output then has variance init_scale^2 whatever the input.
    """

    def __init__(self, in_features: int, out_features: int, grid_size: int = 5, init_scale: float = 1.0):
        super().__init__()
        self.in_features, self.out_features, self.grid_size = in_features, out_features, grid_size
        std = init_scale / math.sqrt(in_features * grid_size)
        # [0] multiplies the cosines, [1] the sines.
        self.fouriercoeffs = nn.Parameter(torch.randn(2, out_features, in_features, grid_size) * std)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features)
        # k x in bf16 would be wrong by up to 1/8 of a radian at x = 5, k = 5: angles are in float32 at least.
        exact = torch.promote_types(x.dtype, torch.float32)
        frequencies = torch.arange(1, self.grid_size + 1, device=x.device, dtype=exact)
        angles = (rows.to(exact).unsqueeze(-1) * frequencies).flatten(1)
        # A matrix product per basis keeps memory at rows x I x G; no rows x O x I x G tensor is ever formed.
        cosines, sines = self.fouriercoeffs.flatten(2)
        out = F.linear(angles.cos().to(x.dtype), cosines) + F.linear(
            angles.sin().to(x.dtype), sines, self.bias
        )
        return out.view(*x.shape[:-1], self.out_features)


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
    reference="GistNoesis/FourierKAN 2024",
    options={
        "grid_size": Option(default=5, minimum=1, help="number of frequencies k"),
        "init_scale": Option(
            default=0.1,
            help="standard deviation of each layer's output at the start; FourierKAN has 1, which drowns "
            "a model's embeddings",
        ),
    },
    multiply_adds=lambda d, f, grid_size, **_: 4 * d * f * grid_size,
)
