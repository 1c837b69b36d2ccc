"""`wav-kan` and `mlp-edge`: layers whose every edge has a function of its own, with no basis for all.

`wav-kan`, after Wav-KAN (Bozorgasl and Chen 2024, arXiv:2405.12832): y_o = sum_i w_oi psi((x_i - t_oi) /
s_oi), with the weight, the translation and the scale of a wavelet learned for each edge. Wavelets are three
of the five of https://github.com/zavareh1/Wav-KAN. Its batch normalisation of the outputs is left out, as by
it a token's output would depend on others; in its place weights are drawn for small outputs.

`mlp-edge`: y_o = b_o + sum_i sum_h v_hoi SiLU(a_hoi x_i + c_hoi), a network of one input, H hidden units and
one output on each edge. No source for it was found to read; the form and its start are this project's own.

Nothing of either is a matrix product: each costs the evaluation of O I functions a token, and with the
parameters of an MLP takes a multiple of its time. The code is this project's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from base import kan_layers
from ffn_variants.kernels.elementwise import edge_sums
from ffn_variants.spec import FFNSpec
from ffn_variants.variants.series_kan import TwoLayers

MORLET_FREQUENCY = 5.0
MEXICAN_HAT_SCALE = 2 / (math.sqrt(3) * math.pi**0.25)
MEAN_SQUARES = {
    "mexican-hat": MEXICAN_HAT_SCALE**2 * 2 / (3 * math.sqrt(3)),
    "morlet": (1 + math.exp(-2 * MORLET_FREQUENCY**2 / 3)) / (2 * math.sqrt(3)),
    "dog": 1 / (3 * math.sqrt(3)),
}
"""E[psi(x)^2] of each wavelet, for x ~ N(0, 1)."""
HIDDEN_SCALE = 1.0
"""Deviation between the layers at the start, as after the batch normalisation of Wav-KAN: two of the wavelets
are even, and flat at zero. At 0.1 there, ``configs/tiny.yaml`` ended at a held-out loss of 2.17 nats with
wavelets, at 1 at 2.05, without any FFN at 2.18; with small networks at 2.24 and 2.07 (as many parameters as
gelu, one seed each)."""


@dataclass(frozen=True)
class Wavelets:
    """sum_i w_oi psi((x_i - t_oi) / s_oi).

    Attributes:
        wavelet: ``"mexican-hat"``, ``"morlet"`` or ``"dog"``, the derivative of a Gaussian.
    """

    wavelet: str

    def __call__(self, x: Tensor, weight: Tensor, translation: Tensor, scale: Tensor) -> Tensor:
        """Evaluate (N, I) inputs with parameters (O, I) to (N, O)."""
        z = (x.unsqueeze(1) - translation) / scale
        bell = torch.exp(-z * z / 2)
        if self.wavelet == "mexican-hat":
            values = MEXICAN_HAT_SCALE * (z * z - 1) * bell
        elif self.wavelet == "morlet":
            values = torch.cos(MORLET_FREQUENCY * z) * bell
        else:
            values = -z * bell
        return (values * weight).sum(-1)


class WavKANLinear(nn.Module):
    """One layer of wavelets from (..., I) to (..., O).

    Args:
        in_features: I.
        out_features: O.
        wavelet: As in ``Wavelets``.
        init_scale: Standard deviation of an output at the start, for standard normal inputs.

    Weights are drawn from torch's global generator, normal; scales begin at 1 and translations at 0.
    """

    def __init__(
        self, in_features: int, out_features: int, wavelet: str = "mexican-hat", init_scale: float = 0.1
    ):
        super().__init__()
        self.function = Wavelets(wavelet)
        std = init_scale / math.sqrt(in_features * MEAN_SQUARES[wavelet])
        self.weight = nn.Parameter(torch.randn(out_features, in_features) * std)
        self.translation = nn.Parameter(torch.zeros(out_features, in_features))
        self.scale = nn.Parameter(torch.ones(out_features, in_features))

    def forward(self, x: Tensor) -> Tensor:
        return edge_sums(self.function, x, self.weight, self.translation, self.scale)


SILU_MEAN_SQUARE = 0.8
"""About E[SiLU(z)^2] for z ~ N(0, 2), as a hidden unit of an edge has it at the start."""


def edge_networks(x: Tensor, inner: Tensor, bias: Tensor, outer: Tensor) -> Tensor:
    """sum_i sum_h v_hoi SiLU(a_hoi x_i + c_hoi): x (N, I) and parameters (H, O, I) to (N, O)."""
    hidden = F.silu(x[:, None, None] * inner + bias)
    return (hidden * outer).sum((1, 3))


class MLPEdgeLinear(nn.Module):
    """One layer with a small network on each edge, from (..., I) to (..., O).

    Args:
        in_features: I.
        out_features: O.
        units: H, hidden units of each network.
        init_scale: Standard deviation of an output at the start, about, for standard normal inputs.

    Weights are drawn from torch's global generator, normal; inner ones and their biases with deviation 1.
    """

    def __init__(self, in_features: int, out_features: int, units: int = 4, init_scale: float = 0.1):
        super().__init__()
        shape = (units, out_features, in_features)
        std = init_scale / math.sqrt(in_features * units * SILU_MEAN_SQUARE)
        self.inner_weight = nn.Parameter(torch.randn(shape))
        self.inner_bias = nn.Parameter(torch.randn(shape))
        self.outer_weight = nn.Parameter(torch.randn(shape) * std)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x: Tensor) -> Tensor:
        out = edge_sums(edge_networks, x, self.inner_weight, self.inner_bias, self.outer_weight)
        return out + self.bias.to(out.dtype)


EDGES = (
    "every edge has a function of its own, and no matrix product does its work: 48 to 113 times as slow as "
    "an MLP of as many multiply-adds on a CPU (benchmarks/RESULTS.md)"
)

WAV_SPEC = FFNSpec(
    name="wav-kan",
    kind="block",
    build=lambda d, f, wavelet, init_scale: TwoLayers(
        WavKANLinear(d, f, wavelet, HIDDEN_SCALE), WavKANLinear(f, d, wavelet, init_scale)
    ),
    formula="per layer: sum_i w_oi psi((x_i - t_oi) / s_oi), psi a wavelet",
    reference=kan_layers.WAV_KAN.reference,
    options=kan_layers.WAV_KAN.options,
    multiply_adds=lambda d, f, **_: 2 * d * f,
    caution=EDGES,
)

MLP_EDGE_SPEC = FFNSpec(
    name="mlp-edge",
    kind="block",
    build=lambda d, f, units, init_scale: TwoLayers(
        MLPEdgeLinear(d, f, units, HIDDEN_SCALE), MLPEdgeLinear(f, d, units, init_scale)
    ),
    formula="per layer: sum_i sum_h v_hoi SiLU(a_hoi x_i + c_hoi), + bias_o",
    reference=kan_layers.MLP_EDGE.reference,
    options=kan_layers.MLP_EDGE.options,
    multiply_adds=lambda d, f, units, **_: 4 * d * f * units,
    caution=EDGES,
)
