"""A model along its training, from its checkpoints: parameters, curves, norms, ranks and dead channels.

Shapes: N rows, D outputs of an FFN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from base.errors import UsageError
from base.json_text import parse_json
from base.progress import Tell
from eval.inspection.components import edge_curves
from eval.inspection.learned_activations import over_channels, parameter_quantiles, places, rounded
from eval.inspection.probe import Probe
from eval.results.inspection import ActivationLayer, Moment
from eval.zero_shot.task import evenly_spaced
from ffn_variants.inside.activations import activations_of, curves
from ffn_variants.inside.edges import edge_layers, edges_of, ffns_of, is_kan, model_edge_layers
from ffn_variants.inside.removal import last_layers
from pretrain.run.folders import RunFolder
from pretrain.training.checkpoints import read_weights

MOST_MOMENTS = 12
"""Checkpoints that are looked at, evenly spaced over those that there are."""
NUM_TOKENS = 2048
DEAD = 0.01
WARM_UP = 0.1
"""Share of the training whose gradient norms say nothing of its stability."""
SPIKE = 5.0
"""Times the typical change between two logged losses."""
WINDOW = 11


def look_along_training(
    probe: Probe,
    run: RunFolder,
    start: Mapping[str, Tensor],
    drawn: Sequence[ActivationLayer],
    atlas: Mapping[tuple[int, int], tuple[Tensor, Tensor]],
    tell: Tell,
    notes: list[str],
) -> list[Moment]:
    """Measure a model before its training, at its checkpoints and after it.

    Args:
        probe: The trained model; it is left as it was.
        run: Whose checkpoints are looked at.
        start: The weights that training began with.
        drawn: What was found of the activations, which says at which points curves are drawn.
        atlas: By layer and place the edges to be drawn, (E, 2), and their (Q, I) points.
        tell: Told of each step.
        notes: Get a line for a checkpoint that cannot be read.

    Returns:
        In the order of their steps. Without checkpoints, the first and the last.
    """
    final = {name: tensor.clone() for name, tensor in probe.model.state_dict().items()}
    last = last_step(run.metrics_file)
    saved = [(step, path) for step, path in run.checkpoints.items() if step < last]
    moments = []
    try:
        moments.append(_moment(probe, 0, start, drawn, atlas))
        for step, path in evenly_spaced(saved, MOST_MOMENTS):
            tell(f"checkpoint {step}")
            try:
                weights = read_weights(path)
            except UsageError as error:
                notes.append(str(error))
                continue
            moments.append(_moment(probe, step, weights, drawn, atlas))
    finally:
        probe.model.load_state_dict(final)
    return [*moments, _moment(probe, last, final, drawn, atlas)]


def last_step(metrics_file: Path) -> int:
    """The last step that a run logged; 0 where it logged none."""
    return max((int(line["step"]) for line in _lines(metrics_file)), default=0)


def _moment(
    probe: Probe,
    step: int,
    weights: Mapping[str, Tensor],
    drawn: Sequence[ActivationLayer],
    atlas: Mapping[tuple[int, int], tuple[Tensor, Tensor]],
) -> Moment:
    model = probe.model
    model.load_state_dict(dict(weights), strict=False)  # a tied weight is saved once
    learnable = [
        (one, place, look)
        for one, place, look in zip(activations_of(model), places(activations_of(model)), drawn, strict=True)
        if one.is_learnable
    ]
    parameters, lines = {}, {}
    for one, (layer, place), look in learnable:
        points = torch.tensor(look.points)
        channels = _channels(probe, one.module)
        for name, quantiles in parameter_quantiles(one, channels).items():
            parameters[f"{layer}.{place} {name}"] = rounded(torch.tensor(quantiles))
        lines[f"{layer}.{place}"] = [rounded(over_channels(curves(one.module, points, channels))[2])]
    for (layer, place), module in kan_layers(model).items():
        edges = edges_of(module)
        assert edges is not None
        chosen, points = atlas[layer, place]
        lines[f"{layer}.{place}"] = [rounded(curve) for curve in edge_curves(edges, chosen, points)]
    return Moment(
        step=step, loss=probe.loss(), layers=layer_measures(probe), parameters=parameters, curves=lines
    )


def _channels(probe: Probe, module: nn.Module) -> int:
    return probe.inputs([module], 1)[0].shape[1]


def kan_layers(model: nn.Module) -> dict[tuple[int, int], nn.Module]:
    """A model's KAN layers by the number of their transformer layer and their place in it, both from 1."""
    found: dict[tuple[int, int], nn.Module] = {}
    for number, _, layer in model_edge_layers(model):
        if is_kan(layer):
            place = 1 + sum(key[0] == number + 1 for key in found)
            found[number + 1, place] = layer
    return found


def layer_measures(probe: Probe) -> dict[str, list[float | None]]:
    """Measure every FFN of a model: what ``LAYER_MEASURES`` names, by its names."""
    parts = ffns_of(probe.model)
    outputs = probe.seen([_output(part) for part in parts], NUM_TOKENS)
    readers = last_layers(probe.model)
    inner = dict(zip(range(len(readers)), probe.inputs(readers, NUM_TOKENS), strict=True))
    gradients = probe.gradients(NUM_TOKENS)
    named = {id(parameter): name for name, parameter in probe.model.named_parameters()}
    found: dict[str, list[float | None]] = {name: [] for name in _MEASURES}
    for number, (part, (_, given)) in enumerate(zip(parts, outputs, strict=True)):
        layers = [layer for module in part for _, layer in edge_layers(module)]
        weights = [p.detach() for layer in layers for p in layer.parameters() if p.ndim > 1]
        count = sum(w.numel() for w in weights)
        squares = sum(float(w.double().square().sum()) for w in weights)
        own = [gradients.get(named.get(id(p), "")) for module in part for p in module.parameters()]
        slope = sum(float(g.double().square().sum()) for g in own if g is not None)
        found["weight_rms"].append(math.sqrt(squares / count) if count else None)
        found["gradient_norm"].append(math.sqrt(slope) if count else None)
        found["output_rms"].append(float(given.double().square().mean().sqrt()))
        found["effective_rank"].append(effective_rank(given))
        found["dead"].append(_dead(inner[number]) if number in inner else None)
    return found


_MEASURES = ("weight_rms", "gradient_norm", "output_rms", "effective_rank", "dead")


def _output(parts: tuple[nn.Module, ...]) -> nn.Module:
    """The module whose output is that of the FFN."""
    behind = parts[-1]
    return parts[0] if isinstance(behind, nn.Identity) else behind


def effective_rank(values: Tensor) -> float:
    """Exponential of the entropy of the singular values of (N, D) values (Roy and Vetterli 2007).

    Their means are taken off before.
    From 1, where all rows lie on a line, to D. 0 for values that do not differ.
    """
    centred = values.double() - values.double().mean(0)
    sizes = torch.linalg.eigvalsh(centred.t() @ centred).clamp(min=0).sqrt()
    total = sizes.sum()
    if not total > 0:
        return 0.0
    shares = sizes / total
    return float(torch.special.entr(shares).sum().exp())


def _dead(values: Tensor) -> float:
    spread = values.double().std(0)
    typical = spread.square().mean().sqrt()
    return float((spread < DEAD * typical).double().mean()) if typical > 0 else 1.0


def gradient_course(metrics_file: Path) -> dict[str, list[float]]:
    """Steps, mean and largest gradient norms and losses that a run logged, as far as it logged them."""
    lines = [line for line in _lines(metrics_file) if "grad_norm" in line]
    return {
        name: [float(line[key]) for line in lines if key in line]
        for name, key in (
            ("step", "step"),
            ("mean", "grad_norm"),
            ("largest", "grad_norm_max"),
            ("loss", "loss"),
        )
    }


def stability(course: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Say how steady a training was, in numbers; empty where it logged too little.

    Returns:
        ``gradient_spread``: how much the logarithm of the gradient's norm, to base 10, differs from one
        logged line to the next, as a standard deviation, the first tenth of the training left out. A norm
        that falls slowly has none. ``largest_gradient``: the largest norm of a step over the median one.
        ``loss_spikes``: logged losses, a thousand lines each, that lie above the median of the lines around
        them by more than five times what such lines typically differ by.
    """
    first = int(WARM_UP * len(course["step"]))
    norms, largest, losses = (torch.tensor(course[x][first:]).double() for x in ("mean", "largest", "loss"))
    if len(norms) < 2 * WINDOW or not (norms > 0).all():
        return {}
    return {
        "gradient_spread": float(norms.log10().diff().std() / math.sqrt(2)),
        "largest_gradient": float(largest.max() / norms.median()),
        "loss_spikes": 1000 * float(_spikes(losses).double().mean()),
    }


def _spikes(losses: Tensor) -> Tensor:
    half = WINDOW // 2
    around = losses.unfold(0, WINDOW, 1)
    excess = losses[half:-half] - around.median(1).values
    steps = losses.diff()
    typical = 1.4826 * (steps - steps.median()).abs().median() / math.sqrt(2)
    return excess > SPIKE * typical


def _lines(path: Path) -> list[dict]:
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            found.append(parse_json(line))
        except ValueError:  # cut off by a kill
            continue
    return [line for line in found if isinstance(line, dict) and "step" in line]
