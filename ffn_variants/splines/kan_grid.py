"""Knots that follow the data, and the curves refitted on them; what ``KANLinear.update_grid`` does.

Shapes: N rows, I in_features, O out_features, G grid_size, K spline_order.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ffn_variants.splines.b_splines import b_splines

SHORTEST_INTERVAL = 0.1
"""Of the mean interval. A shorter one would let a curve bend within less than float32 can follow."""
MARGIN = 0.01
"""By which the outer intervals reach beyond the inputs, in their whole range: the next ones may be there."""
ANCHOR_WEIGHT = 1e-3
"""Of all anchors together, against all inputs."""


def adapted_grid(x: Tensor, grid: Tensor, spline_order: int, even_share: float) -> Tensor:
    """Place each feature's knots by its inputs.

    Args:
        x: (N, I) inputs; those that are not finite are left out.
        grid: (I, G + 2K + 1) present knots, kept by a feature whose inputs are all one value, or too near one
            another, or too far, for knots of the grid's dtype between them.
        spline_order: K.
        even_share: Share of the even grid in the mixture with the quantiles.

    Returns:
        (I, G + 2K + 1) strictly increasing knots.
    """
    grid_size = grid.shape[1] - 2 * spline_order - 1
    shares = torch.arange(grid_size + 1, dtype=torch.float64) / grid_size
    new = grid.to("cpu", torch.float64, copy=True)
    for own, column in zip(new, x.double().cpu().t(), strict=True):
        values = column[column.isfinite()].unique()
        if len(values) < 2:
            continue
        span = values[-1] - values[0]
        positions = even_share * shares + (1 - even_share) * (values.quantile(shares) - values[0]) / span
        inner = values[0] + span * torch.cat([shares[:1], _no_shorter(positions.diff()).cumsum(0)])
        inner[0] -= MARGIN * span
        inner[-1] += MARGIN * span
        beyond = span / grid_size * torch.arange(1, spline_order + 1)
        knots = torch.cat([inner[0] - beyond.flip(0), inner, inner[-1] + beyond])
        # Values that differ by less than the grid's dtype can divide count as one.
        rounded = knots.to(grid.dtype)
        if (rounded[-1] - rounded[0]).isfinite() and (rounded.diff() > 0).all():
            own.copy_(knots)
    return new.to(grid)


def _no_shorter(widths: Tensor) -> Tensor:
    """Lengthen the shortest intervals, at the cost of what all others have beyond the shortest allowed."""
    shortest = SHORTEST_INTERVAL * (1 + 2 * MARGIN) / len(widths)
    excess = (widths - shortest).clamp(min=0)
    return shortest + excess * (1 - len(widths) * shortest) / excess.sum()


def refitted(x: Tensor, coefficients: Tensor, old: Tensor, new: Tensor, spline_order: int) -> Tensor:
    """Fit the curves on the new knots to those on the old, at the inputs, by least squares.

    Args:
        x: (N, I) inputs; those that are not finite are left out.
        coefficients: (O, I, G + K) on the old knots.
        old: (I, G + 2K + 1) knots.
        new: (I, G + 2K + 1) knots.
        spline_order: K.

    Returns:
        (O, I, G + K) coefficients on the new knots.
    """
    maps = [
        _fit(column, before, after, spline_order)
        for column, before, after in zip(
            x.double().cpu().t(), old.double().cpu(), new.double().cpu(), strict=True
        )
    ]
    # One map a feature serves all outputs, as the fit is linear in the curve.
    maps = torch.stack(maps).to(coefficients.device)
    return torch.einsum("ind,oid->oin", maps, coefficients.double()).to(coefficients)


def _fit(x: Tensor, old: Tensor, new: Tensor, spline_order: int) -> Tensor:
    """Solve for the (G + K, G + K) map from old to new coefficients of one feature, in float64."""
    x = x[x.isfinite()]
    low, high = new[spline_order], new[-1 - spline_order]
    # Without them, coefficients where there are no inputs would be anything.
    count = 4 * len(new)
    anchors = low + (high - low) * (torch.arange(count, dtype=x.dtype) + 0.5) / count
    points = torch.cat([x, anchors]).unsqueeze(1)
    weights = torch.ones_like(points)
    weights[len(x) :] = (ANCHOR_WEIGHT * max(len(x), 1) / count) ** 0.5
    before, after = (b_splines(points, knots.unsqueeze(1), spline_order)[..., 0] for knots in (old, new))
    # gelsd gives the solution of least norm also where columns are zero; the other drivers give NaN.
    return torch.linalg.lstsq(after * weights, before * weights, driver="gelsd").solution
