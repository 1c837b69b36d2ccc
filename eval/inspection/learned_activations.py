"""What learnable activations became: their curves, their parameters, and whether the change is used.

Whether a model uses what its activation became is asked by giving the activation its start back. A scale
alone could as well stand in the weights of the linear layer behind it. So the start is also given back with
that layer fitted anew, by least squares, to what it gave before: what then is lost only a learnable
activation can do.

Shapes: N rows, F channels, Q points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from eval.inspection.probe import Probe
from eval.results.inspection import ActivationLayer
from ffn_variants.inside.activations import Activation, activations_of, channel_parameters, curves

NUM_POINTS = 81
LEVELS = torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95])
TAIL = 0.005
DEAD = 0.01
"""Of the layer's typical standard deviation: a channel that moves less is dead."""
FLAT = 0.05
"""A slope below is near zero."""
NEARLY_ALL = 0.95
RIDGE = 1e-6
ROWS_A_WEIGHT = 4
"""Tokens for each input of a linear layer below which refitting it says nothing: it repeats them by heart."""


def places(activations: Sequence[Activation]) -> list[tuple[int, int]]:
    """Number of the layer and place in it, both from 1, of each."""
    seen: dict[int, int] = {}
    found = []
    for one in activations:
        seen[one.layer] = seen.get(one.layer, 0) + 1
        found.append((one.layer + 1, seen[one.layer]))
    return found


def look_at_activations(probe: Probe, start: PreTrainedModel, num_tokens: int) -> list[ActivationLayer]:
    """Measure every elementwise function of a model on what it reads.

    Args:
        probe: The trained model.
        start: The same model as its training began.
        num_tokens: To read.
    """
    trained, initial = activations_of(probe.model), activations_of(start)
    inputs = probe.inputs([one.module for one in trained], num_tokens)
    return [
        _look(one, before, x, place)
        for one, before, x, place in zip(trained, initial, inputs, places(trained), strict=True)
    ]


@torch.no_grad()
def _look(one: Activation, before: Activation, x: Tensor, place: tuple[int, int]) -> ActivationLayer:
    points, channels = drawn_at(x), x.shape[1]
    given, was = one.module(x), before.module(x)
    slopes = (one.module(x + 1e-2) - one.module(x - 1e-2)) / 2e-2
    edges = torch.cat([points[:1] - torch.inf, (points[1:] + points[:-1]) / 2, points[-1:] + torch.inf])
    counts = torch.histogram(x.flatten().clamp(points[0], points[-1]), edges.clamp(-1e30, 1e30)).hist
    spread = given.std(0)
    change = (given - was).square().mean().sqrt() / was.square().mean().sqrt().clamp(min=1e-12)
    return ActivationLayer(
        layer=place[0],
        place=place[1],
        is_learnable=one.is_learnable,
        points=rounded(points),
        bands=[rounded(band) for band in over_channels(curves(one.module, points, channels))],
        initial=rounded(curves(before.module, points, channels).median(1).values),
        density=rounded(counts / counts.sum()),
        parameters=_parameters(one, before, channels),
        moved=100 * float(change) if one.is_learnable else 0.0,
        dead=float((spread < DEAD * spread.square().mean().sqrt()).float().mean()),
        saturated=float(((slopes.abs() < FLAT).float().mean(0) > NEARLY_ALL).float().mean()),
    )


def drawn_at(x: Tensor) -> Tensor:
    """(Q,) even points over where the inputs of all channels lie, all but a few in a thousand of them."""
    values = x.flatten().sort().values
    low, high = values[int(TAIL * len(values))], values[int((1 - TAIL) * (len(values) - 1))]
    if not low < high:
        low, high = low - 1, high + 1
    return torch.linspace(float(low), float(high), NUM_POINTS)


def over_channels(values: Tensor) -> list[Tensor]:
    """The 5, 25, 50, 75 and 95% quantiles over the last dimension, one after the other."""
    return list(values.float().quantile(LEVELS, dim=-1))


def parameter_quantiles(one: Activation, num_channels: int) -> dict[str, list[float]]:
    """Five quantiles over channels of every parameter, or of each of its columns, by name."""
    found = {}
    for name, parameter in one.module.named_parameters():
        of_channels = name in channel_parameters(one, num_channels)
        table = parameter.detach().float().reshape(len(parameter) if of_channels else 1, -1)
        columns = table.shape[1]
        for column in range(columns):
            label = name if columns == 1 else f"{name} {column + 1}"
            found[label] = [float(v) for v in over_channels(table[:, column])]
    return found


def _parameters(one: Activation, before: Activation, num_channels: int) -> dict[str, dict[str, list[float]]]:
    after, initial = (parameter_quantiles(each, num_channels) for each in (one, before))
    return {name: {"initial": initial[name], "trained": after[name]} for name in after}


def look_at_resets(probe: Probe, start: PreTrainedModel, num_tokens: int, seed: int) -> dict[str, float]:
    """Ask what the loss rises by, in nats, where learnable activations are given other parameters.

    Args:
        probe: The trained model; it is left as it was.
        start: The same model as its training began.
        num_tokens: That linear layers are fitted on.
        seed: Of the order in which channels change places.

    Returns:
        ``start``: as training began. ``refitted``: the same, with the linear layers behind fitted anew; not
        there where an activation has none behind it, or the text is too short to fit one. ``mean``: every
        channel the mean of all. ``shuffled``: channels changed places. Empty without learnable activations.
    """
    pairs = [
        (one, before)
        for one, before in zip(activations_of(probe.model), activations_of(start), strict=True)
        if one.is_learnable
    ]
    if not pairs:
        return {}
    base, widths = probe.loss(), _widths(probe, [one for one, _ in pairs])
    generator = torch.Generator().manual_seed(seed)
    starts = {p: q.detach() for one, two in pairs for p, q in _both(one.module, two.module)}
    means, orders = {}, {}
    for (one, _), width in zip(pairs, widths, strict=True):
        of_channels = channel_parameters(one, width)
        if not of_channels:
            continue
        order = torch.randperm(len(next(iter(of_channels.values()))), generator=generator)
        for parameter in of_channels.values():
            means[parameter] = parameter.detach().mean(0, keepdim=True).expand_as(parameter)
            orders[parameter] = parameter.detach()[order] if len(order) == len(parameter) else parameter
    found = {}
    for name, values in (("start", starts), ("mean", means), ("shuffled", orders)):
        if values:
            with probe.changed(values):
                found[name] = probe.loss() - base
    if _can_be_refitted(probe, [one for one, _ in pairs], num_tokens):
        with probe.changed(starts | _refits(probe, pairs, num_tokens)):
            found["refitted"] = probe.loss() - base
    return found


def _can_be_refitted(probe: Probe, activations: Sequence[Activation], num_tokens: int) -> bool:
    read = probe.inputs([one.module for one in activations], num_tokens)
    return all(
        one.following is not None and len(x) >= ROWS_A_WEIGHT * (one.following.in_features + 1)
        for one, x in zip(activations, read, strict=True)
    )


def _both(one: nn.Module, other: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(one.parameters(), other.parameters(), strict=True)


def _widths(probe: Probe, activations: Sequence[Activation]) -> list[int]:
    return [x.shape[1] for x in probe.inputs([one.module for one in activations], 1)]


@torch.no_grad()
def _refits(
    probe: Probe, pairs: Sequence[tuple[Activation, Activation]], num_tokens: int
) -> dict[Tensor, Tensor]:
    """Weights and biases of the linear layers behind, so that they give what they gave, from the start's."""
    fitted: dict[Tensor, Tensor] = {}
    modules = [one.module for one, _ in pairs]
    for (one, before), x in zip(pairs, probe.inputs(modules, num_tokens), strict=True):
        layer = one.following
        assert layer is not None
        ones = torch.ones(len(x), 1, dtype=torch.float64)
        wanted = layer(one.module(x)).double()
        given = torch.cat([before.module(x).double(), ones if layer.bias is not None else ones[:, :0]], 1)
        gram = given.t() @ given
        gram.diagonal().add_(RIDGE * gram.diagonal().mean())
        solution = torch.linalg.solve(gram, given.t() @ wanted).t().to(layer.weight.dtype)
        fitted[layer.weight] = solution[:, : layer.in_features]
        if layer.bias is not None:
            fitted[layer.bias] = solution[:, layer.in_features]
    return fitted


def rounded(values: Tensor) -> list[float]:
    """Numbers for a file, to six digits, which is more than a figure shows."""
    return [float(f"{value:.6g}") for value in values.tolist()]
