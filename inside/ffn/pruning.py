"""By what the loss rises when edges or units of every FFN are removed, in order of importance or at random.

An edge is removed by setting its function to zero; a unit, a channel inside an FFN, by removing every edge
that leaves it. A weight of a linear layer is an edge, too, so that MLPs and KANs are pruned alike. The same
share goes from every layer, so that layers with small outputs lose no more than others. Nothing is trained
afterwards.

Shapes: I inputs, O outputs of a layer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from inside.ffn.edges import edges_in, variances
from inside.ffn.functions import model_edge_layers
from inside.ffn.probe import Probe
from inside.ffn.record import PruningCurve

SHARES = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]
Choose = Callable[[Tensor, float], Tensor]


def weakest(importance: Tensor, share: float) -> Tensor:
    """Choose a share of the edges, the least important first; (O, I) in, (O, I) true for the chosen out.

    A larger share holds every smaller one. Of equal edges those that come first are chosen.
    """
    count = round(share * importance.numel())
    chosen = torch.zeros(importance.numel(), dtype=torch.bool)
    chosen[importance.flatten().argsort(stable=True)[:count]] = True
    return chosen.view(importance.shape)


def weakest_units(importance: Tensor, share: float) -> Tensor:
    """Choose all edges that leave a share of the inputs, those whose edges move their outputs least."""
    return weakest(importance.sum(0), share).expand(importance.shape)


@torch.no_grad()
def pruning_curves(probe: Probe, seed: int) -> list[PruningCurve]:
    """Measure the loss against the share removed; the model is left as it was.

    Args:
        probe: The trained model.
        seed: Of the random order.

    Returns:
        A curve for edges and for units, in either order; none for FFNs without edges.
    """
    layers = [layer for layers in model_edge_layers(probe.model) for layer in layers]
    if not layers:
        return []
    last = {layers[-1] for layers in model_edge_layers(probe.model) if layers}
    generator = torch.Generator().manual_seed(seed)
    importance = {
        layer: variances(edges_in(layer), x)[0] for layer, x in zip(layers, probe.inputs(layers), strict=True)
    }
    chance = {layer: torch.rand(one.shape, generator=generator) for layer, one in importance.items()}
    curves = []
    for order, ranks in (("importance", importance), ("random", chance)):
        curves.append(_curve(probe, "edges", order, ranks, weakest))
        units = {layer: one for layer, one in ranks.items() if layer in last}
        curves.append(_curve(probe, "units", order, units, weakest_units))
    return curves


def _curve(
    probe: Probe, what: str, order: str, ranks: Mapping[nn.Module, Tensor], choose: Choose
) -> PruningCurve:
    before = {layer: copy.deepcopy(layer.state_dict()) for layer in ranks}
    losses = []
    try:
        for share in SHARES:
            for layer, importance in ranks.items():
                edges_in(layer).remove(choose(importance, share))
            losses.append(probe.loss())
    finally:
        for layer, state in before.items():
            layer.load_state_dict(state)
    return PruningCurve(what=what, order=order, shares=SHARES, loss=losses)
