"""`kan`: two B-spline KAN layers in place of the whole feed-forward network (Liu et al. 2024).

`KANLinear` has the formulation, the parameter names and the initialisation of efficient-kan
(https://github.com/Blealtan/efficient-kan), so that its state dicts load; the code is this project's own.

Shapes: N rows, I in_features, O out_features, G grid_size, K spline_order.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ffn_variants.options import Option
from ffn_variants.spec import FFNSpec


def b_spline_bases(x: Tensor, grid: Tensor, spline_order: int) -> Tensor:
    """Evaluate every B-spline basis function by the Cox-de Boor recursion.

    Args:
        x: (N, I) inputs.
        grid: (I, G + 2K + 1) strictly increasing knots of each input feature.
        spline_order: K, the degree of the pieces.

    Returns:
        (N, I, G + K) values. All are zero outside the knots, where the spline is silent.
    """
    x = x.unsqueeze(-1)
    bases = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
    for k in range(1, spline_order + 1):
        rising = (x - grid[:, : -(k + 1)]) / (grid[:, k:-1] - grid[:, : -(k + 1)])
        falling = (grid[:, k + 1 :] - x) / (grid[:, k + 1 :] - grid[:, 1:-k])
        bases = rising * bases[..., :-1] + falling * bases[..., 1:]
    return bases


class _UniformBases(torch.autograd.Function):
    """Values and slopes of the K + 1 bases that are not zero at each x, found together.

    The slope of a basis of degree K is the difference of two bases of degree K - 1, which the recursion has.
    Keeping slopes in place of the recursion's intermediates makes the backward pass one gather and one sum,
    and saves most of its memory.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, knots: Tensor, spline_order: int) -> Tensor:
        num_intervals = len(knots) - 1
        scale = num_intervals / (knots[-1] - knots[0])
        scaled = (x - knots[0]) * scale
        interval = scaled.floor()
        inside = (interval >= 0) & (interval < num_intervals)
        interval = torch.where(inside, interval, 0)
        # Zero outside, where a far-out x would overflow the powers below.
        u = torch.where(inside, scaled - interval, 0)
        lower, values = [], [inside.to(x.dtype)]
        for k in range(1, spline_order + 1):
            lower, shares = values, [value / k for value in values]
            rising = [(u + (k - r)) * shares[r - 1] for r in range(1, k + 1)]
            falling = [((1 + r) - u) * shares[r] for r in range(k)]
            middle = [up + down for up, down in zip(rising[:-1], falling[1:], strict=True)]
            values = [falling[0], *middle, rising[-1]]
        slopes = [-lower[0], *(a - b for a, b in pairwise(lower)), lower[-1]]
        # Bases j - K ... j are not zero in interval j. This wider buffer has those beyond either end too.
        width = num_intervals + spline_order
        places = interval.long().unsqueeze(-1) + torch.arange(spline_order + 1, device=x.device)
        wide = x.new_zeros(*x.shape, width).scatter_(-1, places, torch.stack(values, -1))
        ctx.save_for_backward(places, torch.stack(slopes, -1), scale)
        ctx.spline_order = spline_order
        return wide[..., spline_order : width - spline_order].contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None, None]:  # type: ignore[bad-override]
        places, slopes, scale = ctx.saved_tensors
        wide = F.pad(grad_outputs[0], (ctx.spline_order, ctx.spline_order))
        return (wide.gather(-1, places) * slopes).sum(-1) * scale, None, None


def uniform_b_spline_bases(x: Tensor, grid: Tensor, spline_order: int) -> Tensor:
    """Evaluate the bases on equally spaced knots, where only K + 1 of them are not zero at any x.

    The recursion runs on the position of x inside its interval alone, so its cost is that of any grid size.

    Args:
        x: (N, I) inputs.
        grid: (I, G + 2K + 1) knots that are equally spaced and the same for every feature.
        spline_order: K, the degree of the pieces.

    Returns:
        (N, I, G + K) values, as ``b_spline_bases``.
    """
    return _UniformBases.apply(x, grid[0], spline_order)  # type: ignore[return-value]


def is_uniform(grid: Tensor) -> bool:
    """Whether all features share one grid of equally spaced knots, up to rounding."""
    steps = grid.diff(dim=-1)
    tolerance = 1e-5 * steps.mean()
    return bool(
        ((steps - steps.mean()).abs() < tolerance).all() and ((grid - grid[:1]).abs() < tolerance).all()
    )


class KANLinear(nn.Module):
    """y_o = sum_i base_oi SiLU(x_i) + sum_i scaler_oi sum_c spline_oic B_c(x_i), with no bias.

    Args:
        in_features: I.
        out_features: O.
        grid_size: G, intervals between the ends of ``grid_range``.
        spline_order: K, 3 for cubic pieces.
        scale_noise: Size of the random curve that the splines start as.
        scale_base: Factor on the slope in the Kaiming bound of ``base_weight``, as efficient-kan has it.
        scale_spline: The same for ``spline_scaler``.
        grid_range: Interval that the grid divides; knots go on for K intervals at each side.

    The initial values come from torch's global generator: Kaiming-uniform base weights and scalers, and
    spline weights that interpolate noise at the grid points.
    """

    grid: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        grid_size: int = 5,
        spline_order: int = 3,
        scale_noise: float = 0.1,
        scale_base: float = 1.0,
        scale_spline: float = 1.0,
        grid_range: tuple[float, float] = (-1.0, 1.0),
    ):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.grid_size, self.spline_order = grid_size, spline_order
        self.scale_noise, self.scale_base, self.scale_spline = scale_noise, scale_base, scale_spline
        step = (grid_range[1] - grid_range[0]) / grid_size
        knots = torch.arange(-spline_order, grid_size + spline_order + 1) * step + grid_range[0]
        self.register_buffer("grid", knots.expand(in_features, -1).contiguous())
        self.base_weight = nn.Parameter(torch.empty(out_features, in_features))
        self.spline_weight = nn.Parameter(torch.empty(out_features, in_features, grid_size + spline_order))
        self.spline_scaler = nn.Parameter(torch.empty(out_features, in_features))
        self._checked_grid: tuple[Tensor, int, bool] | None = None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw initial values in the order of efficient-kan; on the meta device there is nothing to draw."""
        if self.grid.is_meta:
            return
        nn.init.kaiming_uniform_(self.base_weight, a=math.sqrt(5) * self.scale_base)
        noise = torch.rand(self.grid_size + 1, self.in_features, self.out_features) - 0.5
        self.spline_weight.copy_(self._interpolate(noise * self.scale_noise / self.grid_size))
        nn.init.kaiming_uniform_(self.spline_scaler, a=math.sqrt(5) * self.scale_spline)

    def _interpolate(self, values: Tensor) -> Tensor:
        """Solve for the coefficients of least norm whose curves pass through values at the grid points.

        Args:
            values: (G + 1, I, O) curve values.

        Returns:
            (O, I, G + K) coefficients.
        """
        # All features still share one uniform grid here, so one pseudo-inverse serves them all.
        knots = self.grid[:1].double()
        points = knots[0, self.spline_order : self.spline_order + self.grid_size + 1, None]
        bases = b_spline_bases(points, knots, self.spline_order)[:, 0]
        inverse = torch.linalg.pinv(bases).to(values)
        return torch.einsum("cg,gio->oic", inverse, values)

    def _has_uniform_grid(self) -> bool:
        """Look at the grid once, and again only after it was changed or replaced, as when loading."""
        checked = self._checked_grid
        if checked is None or checked[0] is not self.grid or checked[1] != self.grid._version:
            checked = self._checked_grid = (self.grid, self.grid._version, is_uniform(self.grid))
        return checked[2]

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features)
        # Knots lie so close that bf16 would merge them: bases are computed in float32 at least.
        exact = torch.promote_types(x.dtype, torch.float32)
        evaluate = uniform_b_spline_bases if self._has_uniform_grid() else b_spline_bases
        bases = evaluate(rows.to(exact), self.grid.to(exact), self.spline_order).to(x.dtype)
        spline_weight = self.spline_weight * self.spline_scaler.unsqueeze(-1)
        out = F.linear(F.silu(rows), self.base_weight) + F.linear(bases.flatten(1), spline_weight.flatten(1))
        return out.view(*x.shape[:-1], self.out_features)


class KANFFN(nn.Module):
    """(..., D) to (..., D) through F channels by KAN layers.

    Args:
        hidden_size: D.
        intermediate_size: F.
        grid_size: Intervals of each spline's grid.
        spline_order: Degree of the pieces.
        layers: ``"both"``: KANLinear - KANLinear, with the names of efficient-kan's ``KAN([D, F, D])``.
            ``"first"``: KANLinear - Linear, which the source study's RoBERTa had.
        activation: What stands between the two: ``"none"``, or the erf-GELU that the source study kept.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        grid_size: int = 5,
        spline_order: int = 3,
        layers: str = "both",
        activation: str = "none",
    ):
        super().__init__()
        first = KANLinear(hidden_size, intermediate_size, grid_size, spline_order)
        second = (
            KANLinear(intermediate_size, hidden_size, grid_size, spline_order)
            if layers == "both"
            else nn.Linear(intermediate_size, hidden_size)
        )
        self.layers = nn.ModuleList([first, second])
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers[0](x)
        return self.layers[1](F.gelu(x) if self.activation == "gelu" else x)


SPEC = FFNSpec(
    name="kan",
    kind="block",
    build=KANFFN,
    formula="per layer: sum_i w_oi SiLU(x_i) + s_oi sum_c v_oic B_c(x_i)",
    reference="Liu et al. 2024, arXiv:2404.19756; Blealtan/efficient-kan",
    options={
        "grid_size": Option(default=5, minimum=1, help="intervals of each spline's grid over [-1, 1]"),
        "spline_order": Option(default=3, minimum=1, help="degree of the spline's pieces"),
        "layers": Option(
            default="both",
            choices=("both", "first"),
            help="which linear layers become KAN layers",
        ),
        "activation": Option(
            default="none", choices=("none", "gelu"), help="what stands between the two layers"
        ),
    },
    # The scaler of an edge is folded into its coefficients, so it costs no multiply-add a token.
    multiply_adds=lambda d, f, grid_size, spline_order, layers, **_: (
        d * f * (grid_size + spline_order + 1) * (2 if layers == "both" else 1)
        + (d * f if layers == "first" else 0)
    ),
)
