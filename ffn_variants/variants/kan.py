"""`kan`: two B-spline KAN layers in place of the whole feed-forward network (Liu et al. 2024).

`thesis-kan` is the same module as the source study trained it: grid 3, order 3, a GELU between the layers.

`KANLinear` has the formulation, the parameter names and the initialisation of efficient-kan
(https://github.com/Blealtan/efficient-kan), so that its state dicts load; the code is this project's own.

Shapes: N rows, I in_features, O out_features, G grid_size, K spline_order.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from base import kan_layers
from base.options import Option
from ffn_variants.kernels.basis_linear import basis_linear
from ffn_variants.spec import FFNSpec, out_first
from ffn_variants.splines.b_splines import GridSplines, adapted_grid, b_splines, refitted
from ffn_variants.splines.spline_layer import SPLINES_OPTION, SplineLayer, largest_levels


class KANLinear(SplineLayer):
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
        splines: ``"sparse"`` for a layer whose coefficients can be pruned.

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
        splines: str = "dense",
    ):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.grid_size, self.spline_order = grid_size, spline_order
        self.scale_noise, self.scale_base, self.scale_spline = scale_noise, scale_base, scale_spline
        step = (grid_range[1] - grid_range[0]) / grid_size
        # Rounded once, so that the knots are seen to be even in whatever dtype a layer is made.
        knots = torch.tensor(
            [grid_range[0] + k * step for k in range(-spline_order, grid_size + spline_order + 1)]
        )
        self.register_buffer("grid", knots.expand(in_features, -1).contiguous())
        self.base_weight = nn.Parameter(torch.empty(out_features, in_features))
        self.spline_weight = nn.Parameter(torch.empty(out_features, in_features, grid_size + spline_order))
        self.spline_scaler = nn.Parameter(torch.empty(out_features, in_features))
        self.make_mask(self.spline_weight, splines)
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
        # All features still share one even grid here, so one pseudo-inverse serves them all.
        knots = self.grid[:1].double().t()
        points = knots[self.spline_order : self.spline_order + self.grid_size + 1]
        inverse = torch.linalg.pinv(b_splines(points, knots, self.spline_order)[:, :, 0]).to(values)
        return torch.einsum("cg,gio->oic", inverse, values)

    def _splines(self) -> tuple[Any, tuple[Tensor, ...]]:
        return GridSplines(self.spline_order).settle(self.grid)

    def curve_coefficients(self) -> Tensor:
        """(O, I, G + K) coefficients with their scaler."""
        coefficients = self.spline_weight * self.spline_scaler.unsqueeze(-1)
        return coefficients if self.mask is None else coefficients * self.mask

    def forward(self, x: Tensor) -> Tensor:
        # Every input's base weight first, then its coefficients of the first basis, and so on.
        splines = self.curve_coefficients().transpose(1, 2)
        weight = torch.cat([self.base_weight.unsqueeze(1), splines], 1).flatten(1)
        return basis_linear(x, weight, GridSplines(self.spline_order), self.grid)

    @torch.no_grad()
    def update_grid(self, x: Tensor, even_share: float = 0.02) -> None:
        """Move the knots to where the inputs are, and refit the curves (Liu et al. 2024, section 2.5).

        Each input's grid becomes a mixture of an even one and of the quantiles of its distinct values, so
        that repeated ones pull no knots together; no interval is shorter than a tenth of the mean. An input
        with one value keeps its knots. The new curves are the least-squares fit to the old ones at the inputs
        and, with a small weight, at even spaces between, where there are no inputs to decide.

        Only the curves before their scaler are refitted. (efficient-kan refits them after it and keeps the
        scaler, so that it counts twice.) Optimizer moments of ``spline_weight`` belong to the old knots.

        Args:
            x: (..., I) typical inputs; values that are not finite are left out.
            even_share: Share of the even grid in the mixture, in (0, 1].

        Raises:
            UsageError: If coefficients are pruned already.
        """
        self.check_unpruned()
        rows = x.reshape(-1, x.shape[-1])
        grid = adapted_grid(rows, self.grid, self.spline_order, even_share)
        self.spline_weight.copy_(refitted(rows, self.spline_weight, self.grid, grid, self.spline_order))
        self.grid.copy_(grid)

    @torch.no_grad()
    def prune(self, x: Tensor, threshold: float) -> None:
        """Prune the smallest coefficients of each output, as many as ``threshold`` allows.

        The size of one is the root mean square of what it adds to the output. Which can go together is tried
        on the inputs and not bounded: the sum of a thousand sizes is many times the size of their sum.
        """
        mask = self.needed_mask()
        rows = x.reshape(-1, x.shape[-1]).to(self.base_weight)
        rows = rows[rows.isfinite().all(1)]
        if len(rows) < 2:
            return
        y, (basis, constants) = self(rows), self._splines()
        # In parts, as all features of a wide layer at once are more than its matrix products ever hold.
        squares = sum(basis(part, *constants)[:, 1:].square().sum(0) for part in rows.split(256))
        spread = y.std(0).clamp(min=torch.finfo(y.dtype).tiny)
        sizes = self.curve_coefficients().abs() * (squares.t() / len(rows)).sqrt()  # type: ignore[union-attr]
        sizes, before = sizes / spread[:, None, None], mask.clone()

        def change(levels: Tensor) -> Tensor:
            mask.copy_(before & (sizes > levels.to(sizes)[:, None, None]))
            return (self(rows) - y).square().mean(0).sqrt() / spread

        change(largest_levels(change, self.out_features, threshold))


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
        splines: ``"sparse"`` for layers whose coefficients can be pruned.
    """

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        grid_size: int = 5,
        spline_order: int = 3,
        layers: str = "both",
        activation: str = "none",
        splines: str = "dense",
    ):
        super().__init__()
        first = KANLinear(hidden_size, intermediate_size, grid_size, spline_order, splines=splines)
        second = (
            KANLinear(intermediate_size, hidden_size, grid_size, spline_order, splines=splines)
            if layers == "both"
            else nn.Linear(intermediate_size, hidden_size)
        )
        self.layers = nn.ModuleList([first, second])
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.layers[0](x)
        return self.layers[1](F.gelu(hidden) if self.activation == "gelu" else hidden)


def _multiply_adds(d: int, f: int, grid_size: int, spline_order: int, layers: str, **_: object) -> int:
    # The scaler of an edge is folded into its coefficients, so it costs no multiply-add a token.
    per_layer = d * f * (grid_size + spline_order + 1)
    return 2 * per_layer if layers == "both" else per_layer + d * f


_LAYERS = Option(default="both", choices=("both", "first"), help="which linear layers become KAN layers")
_ACTIVATION = Option(default="none", choices=("none", "gelu"), help="what stands between the two layers")

KAN_SPEC = FFNSpec(
    name="kan",
    kind="block",
    build=KANFFN,
    formula="per layer: sum_i w_oi SiLU(x_i) + s_oi sum_c v_oic B_c(x_i)",
    reference=kan_layers.KAN.reference,
    options={
        **kan_layers.KAN.options,
        "layers": _LAYERS,
        "activation": _ACTIVATION,
        "splines": SPLINES_OPTION,
    },
    multiply_adds=_multiply_adds,
    matrices={"base_weight": out_first, "spline_weight": out_first},
)

THESIS_SPEC = FFNSpec(
    name="thesis-kan",
    kind="block",
    build=KANFFN,
    formula="kan with grid 3 and a GELU between its layers",
    reference='the source study\'s "KAN", AISE-TUDelft/tiny-transformers',
    options={
        **KAN_SPEC.options,
        "grid_size": replace(KAN_SPEC.options["grid_size"], default=3),
        "activation": replace(_ACTIVATION, default="gelu"),
    },
    multiply_adds=_multiply_adds,
    matrices={"base_weight": out_first, "spline_weight": out_first},
)
