"""KAN layers whose edges are sums of bumps, of Gaussians or of ReLUs.

`rbf-kan`: layers whose edges are sums of Gaussian bumps, after FastKAN (Li 2024, arXiv:2405.06721).

y = sum_i sum_g v_oig exp(-((n_i - t_g) / h)^2) + W SiLU(x) + b, with n = LayerNorm(x) and t evenly spaced
over [-2, 2] at distance h, as in https://github.com/ZiyaoLi/fast-kan. FastKAN's own draw gives the
bumps' sum a deviation of 2.2 at a width of 512, which drowns the 0.02 of a model's embeddings:
``configs/tiny.yaml`` then ended at a held-out loss of 2.00 nats, at 0.1 at 1.93 (one seed each). The code is
this project's own.

`relu-kan`: layers whose edges are sums of bumps of two ReLUs (Qiu et al. 2024, arXiv:2406.02075).

y_o = b_o + sum_i sum_g w_ogi (r relu(e_gi - x_i) relu(x_i - s_gi))^2, with G + k bumps for every input, each
as wide as k + 1 intervals of a grid at the start, and r = 4 / width^2 of then, so that a bump is 1 in its
middle at first. The ends s and e are learned, and r is a constant, as in https://github.com/quiqi/relu_kan;
in the paper it follows e - s, and a bump stays as high. Other than there at the start: the grid is over
[-2, 2] and not [0, 1], as inputs are normalised ones, weights are drawn for outputs of deviation
``init_scale``, of 1 between the layers, and biases are zero. The code is this project's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from base import kan_layers
from ffn_variants.kernels.basis_linear import FeatureByFeature, basis_linear
from ffn_variants.kernels.operations import in_float32
from ffn_variants.spec import FFNSpec, out_first
from ffn_variants.variants.series_kan import TwoLayers

GRID_RANGE = (-2.0, 2.0)


@dataclass(frozen=True)
class GaussianBasis(FeatureByFeature):
    """exp(-((x - t_g) / h)^2) for every centre t_g.

    Attributes:
        grid_size: Number of centres, at least 2.
    """

    grid_size: int

    def each(self, x: Tensor) -> list[Tensor]:
        """Evaluate (N, I) inputs to features (N, I) each."""
        low, high = GRID_RANGE
        step = (high - low) / (self.grid_size - 1)
        return [torch.exp(-(((x - (low + g * step)) * (1 / step)) ** 2)) for g in range(self.grid_size)]


class RBFKANLinear(nn.Module):
    """One FastKAN layer from (..., I) to (..., O).

    Args:
        in_features: I.
        out_features: O.
        grid_size: Number of Gaussians of each edge.
        init_scale: Standard deviation of their sum at the start.

    Coefficients are drawn from torch's global generator, normal, with the deviation that gives ``init_scale``
    for standard normal inputs. LayerNorm and base layer start as PyTorch's do; a model of this project gives
    them its family's initialisation.
    """

    def __init__(self, in_features: int, out_features: int, grid_size: int = 8, init_scale: float = 0.1):
        super().__init__()
        self.in_features, self.grid_size = in_features, grid_size
        self.layernorm = nn.LayerNorm(in_features)
        std = init_scale / math.sqrt(in_features * _mean_square_of_gaussians(grid_size))
        self.spline_weight = nn.Parameter(torch.randn(out_features, in_features * grid_size) * std)
        self.base_linear = nn.Linear(in_features, out_features)

    def forward(self, x: Tensor) -> Tensor:
        # FastKAN has an input's coefficients side by side; here all inputs' first ones come first.
        weight = (
            self.spline_weight.unflatten(1, (self.in_features, self.grid_size)).transpose(1, 2).flatten(1)
        )
        curves = basis_linear(self._normalized(x), weight, GaussianBasis(self.grid_size))
        return curves + self.base_linear(F.silu(x))

    def _normalized(self, x: Tensor) -> Tensor:
        """Apply LayerNorm in float32 at least: what bf16 rounds off is four times as much after the bumps."""
        return in_float32(self.layernorm, x)


def _mean_square_of_gaussians(grid_size: int) -> float:
    """Sum E[exp(-((x - t_g) / h)^2)^2] over the centres, for x ~ N(0, 1)."""
    low, high = GRID_RANGE
    h = (high - low) / (grid_size - 1)
    centres = [low + g * h for g in range(grid_size)]
    return sum(math.exp(-2 * t**2 / (h**2 + 4)) for t in centres) / math.sqrt(1 + 4 / h**2)


RBF_SPEC = FFNSpec(
    name="rbf-kan",
    kind="block",
    build=lambda d, f, grid_size, init_scale: TwoLayers(
        RBFKANLinear(d, f, grid_size, init_scale), RBFKANLinear(f, d, grid_size, init_scale)
    ),
    formula="per layer: sum_i sum_g v_oig exp(-((LN(x)_i - t_g)/h)^2) + W SiLU(x) + b",
    reference=kan_layers.RBF_KAN.reference,
    options=kan_layers.RBF_KAN.options,
    multiply_adds=lambda d, f, grid_size, **_: 2 * d * f * (grid_size + 1),
    matrices={"spline_weight": out_first},
)


HIDDEN_SCALE = 1.0
"""Deviation between the layers at the start: the second layer's bumps, too, cover inputs of such a one."""


@dataclass(frozen=True)
class Bumps:
    """(r relu(e - x) relu(x - s))^2.

    Attributes:
        factor: r.
    """

    factor: float

    def __call__(self, x: Tensor, start: Tensor, end: Tensor) -> Tensor:
        """Evaluate x (N, I) with ends (K, I) to (N, K, I)."""
        u = x.unsqueeze(1)
        return (self.factor * torch.relu(end - u) * torch.relu(u - start)).square()


class ReLUKANLinear(nn.Module):
    """One layer of bumps from (..., I) to (..., O).

    Args:
        in_features: I.
        out_features: O.
        grid_size: G, the intervals of the grid.
        spline_order: k, by which there are more bumps than intervals.
        init_scale: Standard deviation of an output at the start, for standard normal inputs.

    Weights are drawn from torch's global generator, normal.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        grid_size: int = 5,
        spline_order: int = 3,
        init_scale: float = 0.1,
    ):
        super().__init__()
        low, high = GRID_RANGE
        step = (high - low) / grid_size
        width, count = (spline_order + 1) * step, grid_size + spline_order
        starts = [low + (g - spline_order) * step for g in range(count)]
        self.bumps = Bumps(4 / width**2)
        # Called knots as those of splines are: with them a bump begins and ends.
        self.left_knots = nn.Parameter(torch.tensor(starts).unsqueeze(1).repeat(1, in_features))
        self.right_knots = nn.Parameter(torch.tensor(starts).add(width).unsqueeze(1).repeat(1, in_features))
        std = init_scale / math.sqrt(in_features * _mean_square_of_bumps(starts, width))
        self.weight = nn.Parameter(torch.randn(out_features, count * in_features) * std)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x: Tensor) -> Tensor:
        out = basis_linear(x, self.weight, self.bumps, self.left_knots, self.right_knots)
        return out + self.bias.to(out.dtype)


def _mean_square_of_bumps(starts: list[float], width: float) -> float:
    """Sum E[bump(x)^2] over the bumps, for x ~ N(0, 1)."""
    points = [i / 50 for i in range(-300, 301)]
    shares = [math.exp(-x * x / 2) for x in points]
    total = 0.0
    for start in starts:
        for x, share in zip(points, shares, strict=True):
            height = 4 / width**2 * max(0.0, start + width - x) * max(0.0, x - start)
            total += share * height**4
    return total / sum(shares)


RELU_SPEC = FFNSpec(
    name="relu-kan",
    kind="block",
    build=lambda d, f, grid_size, spline_order, init_scale: TwoLayers(
        ReLUKANLinear(d, f, grid_size, spline_order, HIDDEN_SCALE),
        ReLUKANLinear(f, d, grid_size, spline_order, init_scale),
    ),
    formula="per layer: sum_i sum_g w_ogi (r relu(e_gi - x_i) relu(x_i - s_gi))^2, + bias_o; s, e learned",
    reference=kan_layers.RELU_KAN.reference,
    options=kan_layers.RELU_KAN.options,
    multiply_adds=lambda d, f, grid_size, spline_order, **_: 2 * d * f * (grid_size + spline_order),
    matrices={"weight": out_first},
)
