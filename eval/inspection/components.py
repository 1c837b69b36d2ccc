"""Functional principal components of a layer's edges: how many shapes do they have, and which?

An edge is a curve over the points where inputs occur, without its mean, which is no shape. Components are
those of all edges of a layer (Ramsay and Silverman 2005, chapter 8, each point weighing as often as inputs
lie there). They are found from the K x K products of coefficients, so that no curve need be drawn.

A sum of K functions has at most K components, and of functions that add up to a constant at most K - 1,
whatever is learned: "four components explain 99.9%" is algebra where the bound is four. So the bound stands
with every number, and beside it a random function of the same basis.

Shapes: Q points, K functions, I inputs, O outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ffn_variants.inside.edges import Edges

NUM_POINTS = 128
TINY = 1e-10
"""Of the largest eigenvalue: what is smaller is rounding."""


@dataclass(frozen=True)
class Components:
    """Principal components of the edges of a layer.

    Attributes:
        points: (Q,) coordinates, evenly spaced in the distribution of inputs.
        explained: (r,) shares of the variance, descending.
        shapes: (r, Q) the components, of mean square 1 over the points.
        bound: How many components the basis can have at most, whatever its coefficients.
    """

    points: Tensor
    explained: Tensor
    shapes: Tensor
    bound: int

    @property
    def dimension(self) -> float:
        """Participation ratio (sum l)^2 / sum l^2 of the variances: 1 for one shape, r for r equal ones."""
        return (
            float(self.explained.sum() ** 2 / self.explained.square().sum()) if len(self.explained) else 0.0
        )


def occurring_points(coordinates: Tensor, count: int = NUM_POINTS) -> Tensor:
    """(Q,) quantiles of all inputs together, so that a point stands for as many inputs as any other."""
    levels = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    values = coordinates.flatten()
    if len(values) > 2**22:  # torch.quantile takes no more than 2^24, and this many say the same
        values = values[:: len(values) // 2**22]
    values = values.double().sort().values
    return values[(levels * (len(values) - 1)).round().long()]


@torch.no_grad()
def components(edges: Edges, points: Tensor) -> Components:
    """Find the components of a layer's edges at (Q,) points of their coordinate."""
    basis, weight = _basis(edges, points), _curve_weight(edges, edges.weight)
    products = torch.einsum("oki,oli->ikl", weight, weight)
    mean = torch.einsum("iqk,ik->q", basis, weight.sum(0).t()) / (weight.shape[0] * weight.shape[2])
    gram = torch.einsum("iqk,ikl,irl->qr", basis, products, basis)
    gram = gram / (weight.shape[0] * weight.shape[2]) - torch.outer(mean, mean)
    return _from_gram(gram, points, _bound(basis))


def with_weight(edges: Edges, weight: Tensor) -> Edges:
    """The same basis with other weights."""
    return replace(edges, weight=weight)


@torch.no_grad()
def edge_curves(edges: Edges, chosen: Tensor, points: Tensor) -> Tensor:
    """Draw edges: (E, 2) outputs and inputs, (Q, I) or (Q,) points to (E, Q) values without their mean."""
    basis, weight = _basis(edges, points), _curve_weight(edges, edges.weight)
    output, source = chosen.t()
    rows = basis[source] if len(basis) > 1 else basis.expand(len(chosen), -1, -1)
    return torch.einsum("eqk,ek->eq", rows, weight[output, :, source])


def _curve_weight(edges: Edges, weight: Tensor) -> Tensor:
    return weight[:, : edges.num_curves].double()


def _basis(edges: Edges, points: Tensor) -> Tensor:
    """(I, Q, K) values of the functions at (Q,) or (Q, I) points, without their means over the points."""
    inputs = edges.weight.shape[2]
    spread = points.unsqueeze(1).expand(-1, inputs) if points.ndim == 1 else points
    values = edges.basis(spread.to(edges.weight.dtype).contiguous()).double().permute(2, 0, 1)
    return values - values.mean(1, keepdim=True)


def _bound(basis: Tensor) -> int:
    """Rank of all functions at the points: what the curves of any coefficients can span."""
    inputs, count, _ = basis.shape
    is_shared = inputs == 1 or bool((basis - basis[:1]).abs().max() < 1e-6 * basis.abs().max())
    spanned = basis[0] if is_shared else basis.permute(1, 0, 2).reshape(count, -1)
    return int(torch.linalg.matrix_rank(spanned, rtol=1e-5))


def _from_gram(gram: Tensor, points: Tensor, bound: int) -> Components:
    values, vectors = torch.linalg.eigh(gram)
    values, vectors = values.flip(0).clamp(min=0), vectors.flip(1)
    rank = int((values > TINY * values[0]).sum()) if values[0] > 0 else 0
    rank = min(rank, bound)
    kept = values[:rank]
    shapes = vectors[:, :rank].t() * len(points) ** 0.5
    signs = torch.sign(shapes.gather(1, shapes.abs().argmax(1, keepdim=True)))
    return Components(points, kept / kept.sum() if rank else kept, shapes * signs, bound)
