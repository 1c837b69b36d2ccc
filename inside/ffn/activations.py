"""What the elementwise functions of a model became, beside their start.

Shapes: N rows, F channels, Q points.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedModel

from inside.ffn.functions import Activation, activations_of, curves
from inside.ffn.probe import Probe
from inside.ffn.record import ActivationLayer, rounded

NUM_POINTS = 81
LEVELS = torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95])
TAIL = 0.005
"""Share of inputs at either end that no curve is drawn for."""


def measure_activations(probe: Probe, start: PreTrainedModel) -> list[ActivationLayer]:
    """Measure every elementwise function of a model on what it reads.

    Args:
        probe: The trained model.
        start: The same model as its training began.
    """
    trained = activations_of(probe.model)
    inputs = probe.inputs([one.module for one in trained])
    return [_measure(*one) for one in zip(trained, activations_of(start), inputs, strict=True)]


@torch.no_grad()
def _measure(trained: Activation, initial: Activation, x: Tensor) -> ActivationLayer:
    low, high = central_range(x)
    points, channels = torch.linspace(low, high, NUM_POINTS), x.shape[1]
    step = (high - low) / (NUM_POINTS - 1)
    around = (low - step / 2, high + step / 2)
    counts = torch.histogram(x.flatten().float().clamp(low, high), NUM_POINTS, range=around).hist
    before = initial.module(x)
    change = (trained.module(x) - before).square().mean().sqrt() / before.square().mean().sqrt()
    bands = curves(trained.module, points, channels).float().quantile(LEVELS, dim=-1)
    return ActivationLayer(
        layer=trained.layer + 1,
        is_learnable=trained.is_learnable,
        points=rounded(points.tolist()),
        bands=[rounded(band.tolist()) for band in bands],
        initial=rounded(curves(initial.module, points, channels).median(1).values.tolist()),
        density=rounded((counts / counts.sum()).tolist()),
        moved=100 * float(change) if trained.is_learnable else 0.0,
    )


def central_range(x: Tensor) -> tuple[float, float]:
    """Where the inputs of all channels lie, all but one in a hundred of them."""
    values = x.flatten().sort().values
    low, high = (float(values[int(part * (len(values) - 1))]) for part in (TAIL, 1 - TAIL))
    return (low, high) if low < high else (low - 1, high + 1)


def start_back(probe: Probe, start: PreTrainedModel) -> float | None:
    """Give learnable activations the parameters of their start, and measure by what the loss rises.

    A rise does not say that only a learnable activation could have learned this: a scale in front of a linear
    layer could as well stand in the weights of that layer.

    Args:
        probe: The trained model; it is left as it was.
        start: The same model as its training began.

    Returns:
        Nats a token; None where nothing is learnable.
    """
    pairs = zip(activations_of(probe.model), activations_of(start), strict=True)
    initial: dict[Tensor, Tensor] = {
        parameter: before.detach()
        for trained, untrained in pairs
        for parameter, before in zip(trained.module.parameters(), untrained.module.parameters(), strict=True)
    }
    if not initial:
        return None
    loss = probe.loss()
    with probe.changed(initial):
        return probe.loss() - loss
