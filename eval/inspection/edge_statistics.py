"""What the edges of a layer do on the inputs that occur: how much each moves, and how far from a line.

Nothing is sampled: with the covariance of an input's functions, the variance of what every edge gives follows
for all outputs at once, so that a million edges take seconds.

Shapes: N rows, I inputs, O outputs (1 where nothing is mixed), K functions of each input.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ffn_variants.inside.edges import Edges

ROWS = 512
"""Rows at a time, so that a wide layer's functions never exist whole."""
LIVELY = 0.01
"""Of the mean variance of a layer's edges: below, an edge is as good as not there."""


@dataclass(frozen=True)
class EdgeStatistics:
    """Of every edge, on the rows given.

    Attributes:
        activity: (O, I) standard deviation of what it gives.
        nonlinearity: (O, I) share of that variance that no straight line of its coordinate gives; 0 for an
            edge that does not move.
        outside: Share of inputs beyond the limits that the functions were made for; None without limits.
    """

    activity: Tensor
    nonlinearity: Tensor
    outside: float | None

    @property
    def mean_nonlinearity(self) -> float:
        """Share of the variance of all edges that is no line, each by its variance."""
        variance = self.activity.double().square()
        return float((self.nonlinearity * variance).sum() / variance.sum().clamp(min=1e-300))

    @property
    def dead(self) -> float:
        """Share of edges whose variance is below ``LIVELY`` of the mean."""
        variance = self.activity.double().square()
        return float((variance < LIVELY * variance.mean()).double().mean()) if variance.any() else 1.0

    @property
    def needed(self) -> float:
        """Share of edges that carry 90% of the variance, the most active first."""
        ordered = self.activity.double().square().flatten().sort(descending=True).values
        if not ordered.any():
            return 0.0
        reached = ordered.cumsum(0) >= 0.9 * ordered.sum()
        return float((int(reached.double().argmax()) + 1) / len(ordered))


@torch.no_grad()
def edge_statistics(edges: Edges, x: Tensor) -> EdgeStatistics:
    """Measure every edge of a layer on (N, I) inputs of it."""
    covariance, cross, spread, outside = _moments(edges, x)
    weight = edges.weight.double()
    variance = torch.einsum("oki,ikl,oli->oi", weight, covariance, weight).clamp(min=0)
    along = torch.einsum("oki,ik->oi", weight, cross)
    explained = along.square() / (spread * variance).clamp(min=1e-300)
    # What rounding leaves of an edge that is zero has no shape.
    moves = variance > 1e-12 * variance.max()
    nonlinearity = torch.where(moves, (1 - explained).clamp(0, 1), 0)
    return EdgeStatistics(variance.sqrt(), nonlinearity, outside)


def _moments(edges: Edges, x: Tensor) -> tuple[Tensor, Tensor, Tensor, float | None]:
    """(I, K, K) covariances of the functions, (I, K) with the coordinate, (I,) its variance; share beyond."""
    first = x[:ROWS]
    shift, middle = edges.features(first).double().mean(0).t(), edges.coordinates(first).double().mean(0)
    inputs, count = shift.shape
    squares = torch.zeros(inputs, count, count, dtype=torch.float64)
    sums, cross = torch.zeros_like(shift), torch.zeros_like(shift)
    along, around = torch.zeros_like(middle), torch.zeros_like(middle)
    beyond = 0
    for part in x.split(ROWS):
        features = edges.features(part).double().permute(2, 0, 1) - shift.unsqueeze(1)  # (I, rows, K)
        z = edges.coordinates(part)
        if edges.limits is not None:
            beyond += int(((z < edges.limits[0]) | (z > edges.limits[1])).sum())
        z = z.double() - middle
        squares += features.transpose(1, 2) @ features
        sums += features.sum(1)
        cross += torch.einsum("ink,ni->ik", features, z)
        along, around = along + z.sum(0), around + z.square().sum(0)
    n = len(x)
    covariance = squares / n - (sums / n).unsqueeze(2) * (sums / n).unsqueeze(1)
    with_z = cross / n - sums / n * (along / n).unsqueeze(1)
    outside = beyond / x.numel() if edges.limits is not None else None
    return covariance, with_z, around / n - (along / n).square(), outside
