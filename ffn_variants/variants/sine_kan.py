"""`sine-kan`: layers whose edges are sums of sines, with frequencies that all edges learn (SineKAN 2024).

y_o = b_o + sum_i sum_{g=1..G} A_oig sin(w_g x_i + p_gi). Frequencies w, phases p and amplitudes A begin as in
https://github.com/ereinha/SineKAN (Reinhardt et al. 2024, arXiv:2407.04149): w_g = g in the first layer and
g / (G + 1) in the second; the phases, fixed, are its own, here less whole turns. The code is this project's.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from base import kan_layers
from ffn_variants.kernels.basis_linear import basis_linear
from ffn_variants.spec import FFNSpec

RATIO = (0.9724108095811765, 0.9884401790754128, 0.999449553483052)
"""A, K, C of SineKAN: from a grid of g terms to one of g + 1, phases grow by A g^-K + C."""


def waves(x: Tensor, frequency: Tensor, phase: Tensor) -> Tensor:
    """Evaluate sin(w_g x_i + p_gi): x (N, I), frequency (G,), phase (G, I) to (N, G, I)."""
    return (frequency.unsqueeze(1) * x.unsqueeze(1) + phase).sin()


class SineKANLinear(nn.Module):
    """One layer of sines from (..., I) to (..., O).

    Args:
        in_features: I.
        out_features: O.
        grid_size: G, the number of sines of each edge.
        is_first: Whether it begins as the first layer of a SineKAN, with whole frequencies.

    Amplitudes are drawn from torch's global generator: one number for an edge, over O and, for its sine g,
    over g; it is normal with deviation 0.4 in a first layer, else uniform in [-1, 1].
    """

    def __init__(self, in_features: int, out_features: int, grid_size: int = 8, is_first: bool = True):
        super().__init__()
        numbers = torch.arange(1, grid_size + 1, dtype=torch.get_default_dtype())
        shape = (out_features, in_features, 1)
        drawn = 0.4 * torch.randn(shape) if is_first else 2 * torch.rand(shape) - 1
        self.amplitudes = nn.Parameter(drawn / out_features / numbers)
        self.frequency = nn.Parameter(numbers / (1 if is_first else grid_size + 1))
        self.bias = nn.Parameter(torch.full((out_features,), 1 / out_features))
        self.register_buffer("phase", _phases(numbers, in_features))

    def forward(self, x: Tensor) -> Tensor:
        # (O, I, G) to all inputs' first sine, second sine, ...
        weight = self.amplitudes.transpose(1, 2).flatten(1)
        out = basis_linear(x, weight, waves, self.frequency, self.phase)
        return out + self.bias.to(out.dtype)


def _phases(numbers: Tensor, in_features: int) -> Tensor:
    """(G, I) phases of SineKAN, from 0 to a whole turn: in bf16 they would be off by a tenth beyond."""
    grid_size = len(numbers)
    # Not torch.linspace, which transformers puts on the CPU while it loads a model on the meta device.
    of_inputs = math.pi / max(1, in_features - 1) * torch.arange(in_features, dtype=numbers.dtype)
    a, k, c = RATIO
    growth = math.prod(a * g**-k + c for g in range(1, grid_size))
    return ((numbers / (grid_size + 1)).unsqueeze(1) + of_inputs).mul(growth).remainder(2 * math.pi)


class SineKANFFN(nn.Module):
    """Two layers of sines in place of the whole feed-forward network: D to F to D.

    Args:
        hidden_size: D.
        intermediate_size: F.
        grid_size: Number of sines of every edge.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, grid_size: int = 8):
        super().__init__()
        self.layers = nn.Sequential(
            SineKANLinear(hidden_size, intermediate_size, grid_size),
            SineKANLinear(intermediate_size, hidden_size, grid_size, is_first=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


SPEC = FFNSpec(
    name="sine-kan",
    kind="block",
    build=SineKANFFN,
    formula="per layer: sum_i sum_g A_oig sin(w_g x_i + p_gi), + bias_o; w learned, p fixed",
    reference=kan_layers.SINE_KAN.reference,
    options=kan_layers.SINE_KAN.options,
    multiply_adds=lambda d, f, grid_size: 2 * d * f * grid_size,
    earlier_sources=("aa694bb55f3c", "f351781ff1bf", "6646673812f5"),
)
