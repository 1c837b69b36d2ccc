"""The edges of a run's KAN layers beside two controls: the same model untrained, and random functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from eval.inspection.along_training import kan_layers
from eval.inspection.closed_forms import FORMS, Fits, fit_forms, own_points
from eval.inspection.components import (
    Components,
    components,
    edge_curves,
    occurring_points,
    with_weight,
)
from eval.inspection.edge_statistics import EdgeStatistics, edge_statistics
from eval.inspection.learned_activations import rounded
from eval.inspection.probe import Probe
from eval.results.inspection import Edge, EdgeLayer
from ffn_variants.inside.edges import Edges, edges_of

IN_ATLAS = 12
"""Edges of a layer that are drawn, those that move their output most."""
SHAPES = 4
PLACES = 41

MEASURES = {
    "nonlinearity": "share of the edges' variance that no straight line gives",
    "dimension": "how many shapes the edges have (participation ratio of their components)",
    "named": "share of the edges' variance in edges that a closed form, no line, fits with R2 of 0.99",
    "needed": "share of edges that carry 90% of the variance",
    "dead": "share of edges that hardly move",
    "outside": "share of inputs outside of where the functions were made for",
}
"""What is said of a KAN layer's edges, with its meaning."""


@torch.no_grad()
def look_at_edges(probe: Probe, before: Probe, num_tokens: int, seed: int) -> list[EdgeLayer]:
    """Measure every KAN layer of a model.

    Args:
        probe: The trained model.
        before: The same as its training began.
        num_tokens: To read.
        seed: Of the random functions.
    """
    trained, initial = kan_layers(probe.model), kan_layers(before.model)
    read = probe.inputs(list(trained.values()), num_tokens) if trained else []
    read_before = before.inputs(list(initial.values()), num_tokens) if initial else []
    generator = torch.Generator().manual_seed(seed)
    return [
        _look(place, _edges(layer), x, _edges(initial[place]), x_before, generator)
        for (place, layer), x, x_before in zip(trained.items(), read, read_before, strict=True)
    ]


def _edges(layer: nn.Module) -> Edges:
    edges = edges_of(layer)
    assert edges is not None
    return edges


def _look(
    place: tuple[int, int], edges: Edges, x: Tensor, start: Edges, x_start: Tensor, generator: torch.Generator
) -> EdgeLayer:
    z, z_start = edges.coordinates(x), start.coordinates(x_start)
    points = occurring_points(z)
    points_start = occurring_points(z_start)
    found = {
        name: (edge_statistics(one, read), components(one, at), fit_forms(one, coordinates))
        for name, one, read, at, coordinates in (
            ("trained", edges, x, points, z),
            ("random", random_like(edges, generator), x, points, z),
            ("untrained", start, x_start, points_start, z_start),
            ("untrained random", random_like(start, generator), x_start, points_start, z_start),
        )
    }
    statistics, own, fits = found["trained"]
    middles, density = _density(z)
    return EdgeLayer(
        layer=place[0],
        place=place[1],
        kind=edges.kind,
        num_edges=edges.num_edges,
        bound=own.bound,
        measures={name: _measures(*parts) for name, parts in found.items()},
        explained={name: rounded(parts[1].explained[:16]) for name, parts in found.items()},
        forms={name: parts[2].shares(parts[0].activity) for name, parts in found.items()},
        points=rounded(points),
        shapes=[rounded(shape) for shape in own.shapes[:SHAPES]],
        density=density,
        places=middles,
        atlas=_atlas(edges, z, statistics, fits),
    )


def random_like(edges: Edges, generator: torch.Generator) -> Edges:
    """Random functions of the same basis, whose coefficients have the spread that each has here."""
    spread = edges.weight.double().std((0, 2), keepdim=True)
    drawn = torch.randn(edges.weight.shape, generator=generator, dtype=torch.float64) * spread
    return with_weight(edges, drawn.to(edges.weight.dtype))


def _measures(statistics: EdgeStatistics, shapes: Components, fits: Fits) -> dict[str, float | None]:
    named = fits.shares(statistics.activity)
    return {
        "nonlinearity": statistics.mean_nonlinearity,
        "dimension": shapes.dimension,
        "named": sum(named[form.name] for form in FORMS[1:]),
        "needed": statistics.needed,
        "dead": statistics.dead,
        "outside": statistics.outside,
    }


def _density(z: Tensor) -> tuple[list[float], list[float]]:
    ordered = z.flatten().sort().values
    low, high = (float(ordered[int(part * (len(ordered) - 1))]) for part in (0.005, 0.995))
    if not low < high:
        low, high = low - 1, high + 1
    counts = torch.histogram(z.flatten().float().cpu(), PLACES, range=(low, high)).hist
    step = (high - low) / PLACES
    return rounded(low + step * (torch.arange(PLACES) + 0.5)), rounded(counts / z.numel())


def _strongest(activity: Tensor) -> Tensor:
    """(E, 2) outputs and inputs of the edges that move most, the strongest first; output 0 if unmixed."""
    order = activity.flatten().argsort(descending=True, stable=True)[:IN_ATLAS]
    return torch.stack([order // activity.shape[1], order % activity.shape[1]], 1)


def _atlas(edges: Edges, z: Tensor, statistics: EdgeStatistics, fits: Fits) -> list[Edge]:
    chosen, points = _strongest(statistics.activity), own_points(z)
    values = edge_curves(edges, chosen, points)
    variance = statistics.activity.double().square()
    drawn = []
    for (output, source), curve in zip(chosen.tolist(), values, strict=True):
        number = int(fits.names[output, source])
        is_named = 0 <= number < len(FORMS)
        r2 = fits.r2[output, source].nan_to_num(0)
        drawn.append(
            Edge(
                output=output,
                input=source,
                share=float(variance[output, source] / variance.sum()),
                form=FORMS[number].name if is_named else "",
                r2=float(r2[number] if is_named else r2.max()),
                points=rounded(points[:, source]),
                values=rounded(curve),
            )
        )
    return drawn


@torch.no_grad()
def chosen_edges(
    probe: Probe, layers: Sequence[EdgeLayer], num_tokens: int
) -> Mapping[tuple[int, int], tuple[Tensor, Tensor]]:
    """By layer and place the edges of the atlases, (E, 2), and the (Q, I) points at which they are drawn."""
    modules = kan_layers(probe.model)
    read = probe.inputs(list(modules.values()), num_tokens) if modules else []
    found = {}
    for look, module, x in zip(layers, modules.values(), read, strict=True):
        chosen = torch.tensor([[edge.output, edge.input] for edge in look.atlas])
        found[look.layer, look.place] = (chosen, own_points(_edges(module).coordinates(x)))
    return found
