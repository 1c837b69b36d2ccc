"""How a model takes it when edges or neurons are removed: loss, accuracy and margins against the share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from base.progress import Tell
from eval.inspection.edge_statistics import edge_statistics
from eval.inspection.probe import Probe
from eval.results.inspection import PruningCurve
from eval.scoring.protocol import preset_protocol
from eval.scoring.scorers import SCORERS
from eval.zero_shot.task import TextTask
from ffn_variants.inside.edges import edges_of, model_edge_layers
from ffn_variants.inside.removal import last_layers, removals, remove, save_pruned, weakest, weakest_neurons
from ffn_variants.kernels.compilation import eager_kernels

SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0)
TOLERANCE = 0.05
"""Nats by which the loss may rise: up to there edges count as not needed."""

Choose = Callable[[Tensor, float], Tensor]


@dataclass(frozen=True)
class Way:
    """One way of removing parts of a model.

    Attributes:
        what: ``edges`` or ``neurons``.
        order: ``activity`` or ``random``.
        ranks: By layer, (O, I) numbers by which its edges go, the smallest first.
        choose: From a layer's ranks and a share to what is removed.
    """

    what: str
    order: str
    ranks: dict[nn.Module, Tensor]
    choose: Choose

    def removed(self, share: float) -> dict[nn.Module, Tensor]:
        """By layer what goes when a share does."""
        return {layer: self.choose(ranks, share) for layer, ranks in self.ranks.items()}


class PairScorer:
    """Scores minimal pairs by a copy of a model, whose weights are those of the model at the time.

    Args:
        model: Not yet changed for packed rows.
        objective: Of its family.
        tokenizer: Its tokenizer.
        tasks: The pairs.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        objective: str,
        tokenizer: PreTrainedTokenizerBase,
        tasks: Sequence[TextTask],
    ) -> None:
        self._copy, self._tasks = copy.deepcopy(model), tasks
        scorer = SCORERS[objective]  # type: ignore[bad-index]
        self._scorer = scorer(self._copy, tokenizer, preset_protocol("native", objective))  # type: ignore[bad-argument-type]

    def __call__(self, model: PreTrainedModel) -> tuple[float, float]:
        """Accuracy in percent, and mean margin in nats, each the mean over tasks."""
        self._copy.load_state_dict(model.state_dict())
        with eager_kernels():
            items = [task.measure(self._scorer, lambda _: None).items for task in self._tasks]
        right = [100 * float(one["correct"].mean()) for one in items]
        margins = [float(one["margin"].mean()) for one in items]
        return sum(right) / len(right), sum(margins) / len(margins)


def ways_to_prune(probe: Probe, num_tokens: int, seed: int) -> list[Way]:
    """Rank the edges of every FFN by what they do on held-out text, and at random; and its neurons."""
    layers = [layer for *_, layer in model_edge_layers(probe.model)]
    if not layers:
        return []
    inputs = probe.inputs(layers, num_tokens)
    activity = {}
    for layer, x in zip(layers, inputs, strict=True):
        edges = edges_of(layer)
        assert edges is not None
        activity[layer] = edge_statistics(edges, x).activity
    generator = torch.Generator().manual_seed(seed)
    chance = {layer: torch.rand(a.shape, generator=generator) for layer, a in activity.items()}
    last = last_layers(probe.model)
    return [
        Way("edges", "activity", activity, weakest),
        Way("edges", "random", chance, weakest),
        Way("neurons", "activity", {layer: activity[layer] for layer in last}, weakest_neurons),
    ]


def prune(probe: Probe, way: Way, score: PairScorer | None, tell: Tell) -> PruningCurve:
    """Remove more and more of a model, and measure what is left; the model is left as it was."""
    before = {layer: copy.deepcopy(layer.state_dict()) for layer in way.ranks}
    losses, accuracies, margins = [], [], []
    for share in SHARES:
        tell(f"{share:.0%} of {way.what} removed by {way.order}")
        remove(way.removed(share))
        try:
            losses.append(probe.loss())
            if score is not None:
                accuracy, margin = score(probe.model)
                accuracies.append(accuracy)
                margins.append(margin)
        finally:
            for layer, state in before.items():
                layer.load_state_dict(state)
    return PruningCurve(
        what=way.what,
        order=way.order,
        shares=list(SHARES),
        loss=losses,
        accuracy=accuracies,
        log_odds=margins,
    )


def rise_at(curve: PruningCurve, share: float) -> float:
    """Nats by which the loss is higher where a share is removed, between measured shares along a line."""
    return _between(curve.shares, curve.loss, share) - curve.loss[0]


def removable(curve: PruningCurve) -> float:
    """The largest share up to which the loss never rises by more than ``TOLERANCE``."""
    limit = curve.loss[0] + TOLERANCE
    for k in range(1, len(curve.shares)):
        if curve.loss[k] > limit:
            low, high = curve.loss[k - 1], curve.loss[k]
            part = (limit - low) / (high - low) if high > low else 0.0
            return curve.shares[k - 1] + max(0.0, part) * (curve.shares[k] - curve.shares[k - 1])
    return 1.0


def _between(xs: Sequence[float], ys: Sequence[float], x: float) -> float:
    for k in range(1, len(xs)):
        if x <= xs[k]:
            part = (x - xs[k - 1]) / (xs[k] - xs[k - 1])
            return ys[k - 1] + part * (ys[k] - ys[k - 1])
    return ys[-1]


def save_at(
    folder: Path, whole: PreTrainedModel, way: Way, probe: Probe, share: float, tokenizer: object
) -> None:
    """Save a model without a share of what a way removes.

    Args:
        folder: Where to.
        whole: The trained model as it was loaded, which is changed.
        way: Made of the probe's model.
        probe: Whose model has the layers that the way knows.
        share: What part goes.
        tokenizer: Saved beside it.
    """
    of_probe = [layer for *_, layer in model_edge_layers(probe.model)]
    of_whole = [layer for *_, layer in model_edge_layers(whole)]
    twins = dict(zip(of_probe, of_whole, strict=True))
    removed = {twins[layer]: mask for layer, mask in way.removed(share).items()}
    remove(removed)
    how = f"{share:.1%} of every layer's, those of least activity on held-out text"
    save_pruned(whole, folder, removals(whole, removed), how, tokenizer)
