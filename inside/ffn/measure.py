"""What is measured of one run: its learned functions, the importance of its KAN edges, and pruning.

Activations and edges are measured on what the model reads of held-out text, beside the model with the weights
that its training began with. No edge is sampled: with the covariance of an input's functions, the variance of
every edge's outputs follows for all outputs at once, so that a million edges take seconds.

Shapes: N rows, F channels, I inputs, O outputs (1 where nothing is mixed), K functions of each input, Q
points, E edges.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from base.errors import UsageError
from base.families import get_family
from base.run.folder_names import RunFolder
from eval.identity import admit_run, identify_run
from ffn_variants.models.loading import load_language_model
from inside.ffn.functions import Edges, activations_of, edges_of, ffns_of, model_edge_layers
from inside.ffn.probe import Probe, read_held_out, untrained
from pretrain.run.run_folder import read_run

Numbers = list[float]
KINDS = ("trained", "untrained")
"""A run's model, and the one with the weights that its training began with."""
NUM_POINTS = 64
TAIL = 0.005
"""Share of an activation's inputs at either end that no curve is drawn for."""
BANDS = {"median channel": 0.5, "5% of channels": 0.05, "95% of channels": 0.95}
NUM_DRAWN = 6
"""Edges of a layer that are drawn, the most important ones."""
SHARES = [part / 20 for part in range(21)]
"""Of edges, at which it is noted how much of all importance they carry."""
CARRIED = 0.9
REMOVED = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]
"""Shares of edges that are removed."""
ROWS = 512
"""Rows at a time, so that a wide layer's functions never exist whole."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A learned function.

    Attributes:
        name: Which one of its layer.
        points: Inputs at which it is drawn: quantiles for edges, even ones for activations.
        values: Its outputs there; of edges without their mean.
        initial: The same before training.
    """

    name: str
    points: Numbers
    values: Numbers
    initial: Numbers


@dataclass(frozen=True, kw_only=True)
class ActivationLayer:
    """One elementwise function of a model, over its channels.

    Attributes:
        layer: Number of the transformer layer, from 1.
        curves: Quantiles over channels, ``BANDS``.
        moved: Root mean square change of its outputs on its inputs, in percent of their size at the start;
            None where it has no parameters.
    """

    layer: int
    curves: list[Curve]
    moved: float | None


@dataclass(frozen=True, kw_only=True)
class EdgeLayer:
    """The edges of one KAN layer; an edge's importance is the variance of its outputs on held-out text.

    Attributes:
        layer: Number of the transformer layer, from 1.
        curves: The most important edges, the first one first.
        num_edges: How many edges it has.
        carried: By ``KINDS`` the share of all importance that the most important edges carry, at ``SHARES``.
        needed: By ``KINDS`` the smallest share of edges that carries 90% of the importance.
    """

    layer: int
    curves: list[Curve]
    num_edges: int
    carried: dict[str, Numbers]
    needed: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class RunInspection:
    """Everything that is measured of one run.

    Attributes:
        ffn_parameters: Learnable numbers of the FFNs.
        num_tokens: Of held-out text that was read.
        loss: Held-out, in nats a token.
        pruning: By order of removal, ``importance`` (the least important first) or ``random``, the loss with
            the shares ``REMOVED`` of every layer's edges removed; empty for FFNs without edges.
    """

    run_id: str
    family: str
    variant: str
    seed: int
    ffn_parameters: int
    num_tokens: int
    loss: float
    activations: list[ActivationLayer]
    edges: list[EdgeLayer]
    pruning: dict[str, Numbers]

    @property
    def layers(self) -> Sequence[ActivationLayer | EdgeLayer]:
        """The layers with learned functions."""
        return self.edges or self.activations

    @property
    def summaries(self) -> dict[str, float]:
        """One number for each column of the page's table, by name; means over layers, percent for shares."""
        summaries = {"loss": self.loss}
        if moved := [layer.moved for layer in self.activations if layer.moved is not None]:
            summaries["moved"] = fmean(moved)
        for kind in KINDS if self.edges else ():
            summaries[f"edges needed, {kind}"] = 100 * fmean(layer.needed[kind] for layer in self.edges)
        for order, losses in self.pruning.items():
            summaries[f"half of the edges, {order}"] = losses[REMOVED.index(0.5)] - losses[0]
        return summaries


def inspect_run(path: Path, num_tokens: int | None, trust_remote_code: bool) -> RunInspection:
    """Measure a run.

    Args:
        path: The run's folder.
        num_tokens: Of held-out text to read; None for all.
        trust_remote_code: Whether to run an FFN variant that the run brings.

    Raises:
        UsageError: If the run has no model, or its text is unusable.
    """
    admit_run(path, trust_remote_code)
    identity = identify_run(path)
    trained, initial = open_probes(path, num_tokens, trust_remote_code)
    loss = trained.loss()
    if not math.isfinite(loss):
        raise UsageError(f"{path}: its held-out loss is {loss}, and there is nothing to inspect")
    layers = measured_layers(trained)
    return RunInspection(
        run_id=identity.run_id,
        family=identity.family,
        variant=identity.variant,
        seed=identity.seed,
        ffn_parameters=sum(
            p.numel() for parts in ffns_of(trained.model) for x in parts for p in x.parameters()
        ),
        num_tokens=trained.text.num_tokens,
        loss=loss,
        activations=measure_activations(trained, initial.model),
        edges=[
            _edge_layer(*both)
            for both in zip(layers, measured_layers(initial), strict=True)
            if not isinstance(both[0].module, nn.Linear)
        ],
        pruning=pruning_losses(trained, layers, identity.seed),
    )


def open_probes(path: Path, num_tokens: int | None, trust_remote_code: bool = False) -> tuple[Probe, Probe]:
    """Load a run's trained model onto the CPU, in float32, and build the one that its training began with."""
    run, config = RunFolder(path), read_run(path)
    text = read_held_out(run, config, num_tokens)
    objective = get_family(config.family).objective
    model, _ = load_language_model(run.model_dir, objective, "cpu", trust_remote_code)
    start = untrained(config, model)
    return Probe(model, config.family, text), Probe(start, config.family, text)


def measure_activations(trained: Probe, start: PreTrainedModel) -> list[ActivationLayer]:
    """Measure every elementwise function of a model on what it reads.

    Args:
        trained: The trained model.
        start: The same model as its training began.
    """
    activations = activations_of(trained.model)
    inputs = trained.inputs([module for _, module in activations])
    parts = zip(activations, activations_of(start), inputs, strict=True)
    return [_activation_layer(number, module, initial, x) for (number, module), (_, initial), x in parts]


@torch.no_grad()
def _activation_layer(number: int, trained: nn.Module, initial: nn.Module, x: Tensor) -> ActivationLayer:
    low, high = np.quantile(x.numpy(), [TAIL, 1 - TAIL])
    points = torch.linspace(float(low), float(high), NUM_POINTS)
    grid = points.unsqueeze(1).repeat(1, x.shape[1])
    bands = torch.tensor([*BANDS.values()])
    quantiles = [module(grid).float().quantile(bands, dim=1) for module in (trained, initial)]
    before = initial(x)
    change = (trained(x) - before).square().mean().sqrt() / before.square().mean().sqrt()
    return ActivationLayer(
        layer=number,
        curves=[_curve(name, points, *both) for name, *both in zip(BANDS, *quantiles, strict=True)],
        moved=100 * float(change) if any(True for _ in trained.parameters()) else None,
    )


def _curve(name: str, points: Tensor, values: Tensor, initial: Tensor) -> Curve:
    return Curve(name=name, points=_rounded(points), values=_rounded(values), initial=_rounded(initial))


def _rounded(values: Tensor) -> Numbers:
    """Numbers for a file, to six digits, which is more than a figure shows."""
    return [float(f"{value:.6g}") for value in values.tolist()]


class MeasuredLayer(NamedTuple):
    """A layer of edges and what is measured of it.

    Attributes:
        number: That of its transformer layer, from 1.
        module: The layer.
        edges: Its edges.
        inputs: (N, I) what it reads.
        importance: (O, I) variance of every edge's outputs.
    """

    number: int
    module: nn.Module
    edges: Edges
    inputs: Tensor
    importance: Tensor


def measured_layers(probe: Probe) -> list[MeasuredLayer]:
    """Measure every layer of edges of a model on what it reads."""
    numbered = [
        (number, layer) for number, layers in enumerate(model_edge_layers(probe.model), 1) for layer in layers
    ]
    inputs = probe.inputs([layer for _, layer in numbered])
    return [
        MeasuredLayer(number, layer, edges, x, variances(edges, x))
        for (number, layer), x in zip(numbered, inputs, strict=True)
        if (edges := edges_of(layer)) is not None
    ]


@torch.no_grad()
def variances(edges: Edges, x: Tensor) -> Tensor:
    """(O, I) variance of every edge's outputs on (N, I) inputs."""
    # An edge's output is w . f with the K functions f of its input, so its variance is w^T C w, with their
    # covariance C. One C serves all outputs: 1,024 outputs of a kan cost one (9, 9) matrix an input.
    weight = edges.weight.double()
    return torch.einsum("oki,ikl,oli->oi", weight, _covariance(edges, x), weight).clamp(min=0)


def _covariance(edges: Edges, x: Tensor) -> Tensor:
    """(I, K, K) covariance of each input's functions."""

    def columns(rows: Tensor) -> Tensor:
        return edges.features(rows).double().permute(2, 0, 1)

    # Sums of squares of what is near zero lose no digits.
    shift = columns(x[:ROWS]).mean(1, keepdim=True)
    sums, squares = torch.zeros(()), torch.zeros(())
    for rows in x.split(ROWS):
        values = columns(rows) - shift
        sums, squares = sums + values.sum(1), squares + values.mT @ values
    means = sums / len(x)
    return squares / len(x) - means.unsqueeze(2) * means.unsqueeze(1)


def _edge_layer(trained: MeasuredLayer, initial: MeasuredLayer) -> EdgeLayer:
    both = dict(zip(KINDS, (trained, initial), strict=True))
    carried = {kind: carried_shares(layer.importance) for kind, layer in both.items()}
    places = [round(share * trained.importance.numel()) for share in SHARES]
    return EdgeLayer(
        layer=trained.number,
        curves=_strongest(trained, initial),
        num_edges=trained.importance.numel(),
        carried={kind: _rounded(shares[places]) for kind, shares in carried.items()},
        needed={kind: share_needed(shares) for kind, shares in carried.items()},
    )


def carried_shares(importance: Tensor) -> Tensor:
    """(E + 1,) shares of all importance that the first 0, 1, ... E edges carry, the most important first."""
    ordered = importance.flatten().sort(descending=True).values
    if ordered.sum() <= 0:  # edges that give nothing are equal
        ordered = torch.ones_like(ordered)
    return torch.cat([ordered.new_zeros(1), ordered.cumsum(0)]) / ordered.sum()


def share_needed(carried: Tensor) -> float:
    """The smallest share of edges that carries 90% of the importance."""
    return int((carried >= CARRIED - 1e-12).double().argmax()) / (len(carried) - 1)


@torch.no_grad()
def _strongest(trained: MeasuredLayer, initial: MeasuredLayer) -> list[Curve]:
    """Draw the most important edges on the inputs that occur, with the same edges of the untrained model."""
    order = trained.importance.flatten().argsort(descending=True, stable=True)[:NUM_DRAWN]
    num_inputs = trained.importance.shape[1]
    outputs, inputs = order // num_inputs, order % num_inputs
    levels = (torch.arange(NUM_POINTS) + 0.5) / NUM_POINTS
    coordinates = trained.edges.coordinates(trained.inputs).sort(0).values
    points = coordinates[(levels * (len(coordinates) - 1)).round().long()]
    curves = [layer.edges.curves(outputs, inputs, points) for layer in (trained, initial)]
    after, before = (curve - curve.mean(1, keepdim=True) for curve in curves)
    return [
        _curve(f"input {i} to output {o}", points[:, i], now, start)
        for o, i, now, start in zip(outputs.tolist(), inputs.tolist(), after, before, strict=True)
    ]


def pruning_losses(probe: Probe, layers: Sequence[MeasuredLayer], seed: int) -> dict[str, Numbers]:
    """Measure the loss against the share of edges that is removed; the model is left as it was.

    An edge is removed by setting its function to zero. A weight of a linear layer is an edge, too, so that
    MLPs and KANs are pruned alike. The same share goes from every layer, so that layers with small outputs
    lose no more than others. Nothing is trained afterwards.

    Args:
        probe: The trained model.
        layers: Its layers of edges.
        seed: Of the random order.

    Returns:
        As in ``RunInspection``.
    """
    if not layers:
        return {}
    generator = torch.Generator().manual_seed(seed)
    ranks = {
        "importance": [layer.importance for layer in layers],
        "random": [torch.rand(layer.importance.shape, generator=generator) for layer in layers],
    }
    return {order: _losses(probe, layers, of_order) for order, of_order in ranks.items()}


def _losses(probe: Probe, layers: Sequence[MeasuredLayer], ranks: Sequence[Tensor]) -> Numbers:
    before = [copy.deepcopy(layer.module.state_dict()) for layer in layers]
    losses = []
    for share in REMOVED:
        for layer, rank in zip(layers, ranks, strict=True):
            layer.edges.remove(weakest(rank, share))
        losses.append(probe.loss())
    for layer, state in zip(layers, before, strict=True):
        layer.module.load_state_dict(state)
    return losses


def weakest(importance: Tensor, share: float) -> Tensor:
    """Choose a share of the edges, the least important first; (O, I) in, (O, I) true for those out.

    A larger share holds every smaller one. Of equal edges those that come first are chosen.
    """
    is_weakest = torch.zeros(importance.numel(), dtype=torch.bool)
    is_weakest[importance.flatten().argsort(stable=True)[: round(share * importance.numel())]] = True
    return is_weakest.view(importance.shape)
