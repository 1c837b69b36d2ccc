"""The importance of KAN edges on the inputs that occur, trained and untrained.

Nothing is sampled: with the covariance of an input's functions, the variance of every edge's outputs follows
for all outputs at once, so that a million edges take seconds.

Shapes: N rows, I inputs, O outputs (1 where nothing is mixed), K functions of each input, Q points, E edges.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from inside.ffn.functions import Edges, edges_of, is_kan, model_edge_layers
from inside.ffn.probe import Probe
from inside.ffn.record import KINDS, Edge, EdgeLayer, rounded

ROWS = 512
"""Rows at a time, so that a wide layer's functions never exist whole."""
SHARES = [part / 20 for part in range(21)]
CARRIED = 0.9
STRONGEST = 6
NUM_POINTS = 64


@torch.no_grad()
def measure_edges(probe: Probe, untrained: Probe) -> list[EdgeLayer]:
    """Measure every KAN layer of a model.

    Args:
        probe: The trained model.
        untrained: The same as its training began.
    """
    layers, initial = _kan_layers(probe), _kan_layers(untrained)
    modules, before = ([layer for _, layer in found] for found in (layers, initial))
    inputs = zip(probe.inputs(modules), untrained.inputs(before), strict=True)
    return [
        _measure(number, edges_in(layer), x, edges_in(start), x_start)
        for (number, layer), start, (x, x_start) in zip(layers, before, inputs, strict=True)
    ]


def _kan_layers(probe: Probe) -> list[tuple[int, nn.Module]]:
    """The KAN layers of a model, with the number of their transformer layer from 1."""
    numbered = enumerate(model_edge_layers(probe.model), 1)
    return [(number, layer) for number, layers in numbered for layer in layers if is_kan(layer)]


def edges_in(layer: nn.Module) -> Edges:
    """Return the edges of a layer that has some."""
    edges = edges_of(layer)
    assert edges is not None
    return edges


def _measure(number: int, trained: Edges, x: Tensor, start: Edges, x_start: Tensor) -> EdgeLayer:
    importances, lines = zip(*(variances(trained, x), variances(start, x_start)), strict=True)
    ordered = [_carried(importance) for importance in importances]
    places = [[round(share * (len(one) - 1)) for share in SHARES] for one in ordered]
    return EdgeLayer(
        layer=number,
        num_edges=importances[0].numel(),
        carried={k: rounded(o[at].tolist()) for k, o, at in zip(KINDS, ordered, places, strict=True)},
        needed={k: _needed(one) for k, one in zip(KINDS, ordered, strict=True)},
        nonlinear={
            k: 1 - float(line.sum() / total.sum().clamp(min=1e-300))
            for k, line, total in zip(KINDS, lines, importances, strict=True)
        },
        strongest=_strongest(trained, start, x, importances[0]),
    )


def _carried(importance: Tensor) -> Tensor:
    """(E + 1,) shares of all importance that the first 0, 1, ... E edges carry, the most important first."""
    ordered = importance.flatten().sort(descending=True).values
    total = ordered.sum()
    if total <= 0:  # edges that give nothing are equal
        ordered, total = torch.ones_like(ordered), torch.tensor(float(len(ordered)))
    return torch.cat([ordered.new_zeros(1), ordered.cumsum(0)]) / total


def _needed(carried: Tensor) -> float:
    return int((carried >= CARRIED - 1e-12).double().argmax()) / (len(carried) - 1)


def variances(edges: Edges, x: Tensor) -> tuple[Tensor, Tensor]:
    """Variance of every edge's outputs on (N, I) inputs, and the part that a straight line explains.

    Returns:
        (O, I) each. The line is of an edge's own coordinate, fitted by least squares.
    """
    covariance, cross, spread = _moments(edges, x)
    weight = edges.weight.double()
    variance = torch.einsum("oki,ikl,oli->oi", weight, covariance, weight).clamp(min=0)
    along = torch.einsum("oki,ik->oi", weight, cross)
    return variance, torch.minimum(along.square() / spread.clamp(min=1e-300), variance)


def _moments(edges: Edges, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(I, K, K) covariances of the functions, (I, K) with the coordinate, and its (I,) variance."""
    shift, middle = (
        edges.features(x[:ROWS]).double().mean(0).t(),
        edges.coordinates(x[:ROWS]).double().mean(0),
    )
    inputs, count = shift.shape
    squares = torch.zeros(inputs, count, count, dtype=torch.float64)
    sums, cross = torch.zeros_like(shift), torch.zeros_like(shift)
    along, around = torch.zeros_like(middle), torch.zeros_like(middle)
    for part in x.split(ROWS):
        features = edges.features(part).double().permute(2, 0, 1) - shift.unsqueeze(1)  # (I, rows, K)
        z = edges.coordinates(part).double() - middle
        squares += features.transpose(1, 2) @ features
        cross += torch.einsum("ink,ni->ik", features, z)
        sums, along, around = sums + features.sum(1), along + z.sum(0), around + z.square().sum(0)
    means, drift = sums / len(x), along / len(x)
    covariance = squares / len(x) - means.unsqueeze(2) * means.unsqueeze(1)
    return covariance, cross / len(x) - means * drift.unsqueeze(1), around / len(x) - drift.square()


def _strongest(trained: Edges, start: Edges, x: Tensor, importance: Tensor) -> list[Edge]:
    """Draw the most important edges on the inputs that occur, with the same edges of the untrained model."""
    order = importance.flatten().argsort(descending=True, stable=True)[:STRONGEST]
    outputs, inputs = order // importance.shape[1], order % importance.shape[1]
    points = _quantiles(trained.coordinates(x))
    after, before = (edges.curves(outputs, inputs, points) for edges in (trained, start))
    curves = [(curve - curve.mean(1, keepdim=True)).tolist() for curve in (after, before)]
    drawn = zip(outputs.tolist(), inputs.tolist(), *curves, strict=True)
    return [
        Edge(
            output=o,
            input=i,
            points=rounded(points[:, i].tolist()),
            values=rounded(now),
            initial=rounded(was),
        )
        for o, i, now, was in drawn
    ]


def _quantiles(coordinates: Tensor) -> Tensor:
    """(Q, I) quantiles of each input."""
    levels = (torch.arange(NUM_POINTS) + 0.5) / NUM_POINTS
    return coordinates.sort(0).values[(levels * (len(coordinates) - 1)).round().long()]
