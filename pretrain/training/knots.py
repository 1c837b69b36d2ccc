"""Splines in training: knots that move to their inputs, a penalty on coefficients, and pruning.

All of it is a function of the config and the step, as everything that a run draws
(see ``pretrain.data.step_batches``): a resumed run, and one on several processes, does the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from accelerate.utils import broadcast
from torch import Tensor, nn
from torch.optim import Optimizer

from ffn_variants.splines.spline_layer import SplineLayer, sparsity_penalty, spline_layers
from pretrain.config import ResolvedConfig

NUM_TOKENS = 4096
"""Of the rows that knots are placed and coefficients pruned by; six quantiles of a spline need no more."""


class SplineSchedule:
    """What a run does with its spline layers, and when. Does nothing, and costs nothing, by default.

    Args:
        config: The run.
        model: Its model.
        max_steps: Its steps.
    """

    def __init__(self, config: ResolvedConfig, model: nn.Module, max_steps: int) -> None:
        splines = config.splines
        self.penalty, self.prune_below = splines.penalty, splines.prune_below
        self.layers = spline_layers(model)
        self.updates = {_step_at(share, max_steps) for share in splines.knot_updates}
        self.prune_step = _step_at(splines.prune_at, max_steps) if splines.prune_below else None

    def adapt(self, step: int, run: Callable[[int], None], optimizer: Optimizer) -> bool:
        """Move and prune knots, where it is time to; returns whether it was.

        Args:
            step: Steps done; a checkpoint of the same step was made before.
            run: Runs the model on typical rows of about so many tokens.
            optimizer: Forgets its moments of what was refitted. They belong to other functions of the inputs;
                with its step counter, a parameter starts as at the first step.
        """
        if step in self.updates:
            for layer, inputs in self._inputs(run):
                with _forgetting(layer, optimizer):
                    layer.update_grid(inputs)
        if step == self.prune_step:
            assert self.prune_below is not None
            for layer, inputs in self._inputs(run):
                with _forgetting(layer, optimizer):
                    layer.prune(inputs, self.prune_below)
        return step in self.updates or step == self.prune_step

    def add_penalty_gradients(self) -> None:
        """Add the weighted penalty's gradient to that of the loss.

        Not by a backward pass of both: the loss comes in parts, from several processes, and the penalty once.
        """
        if not self.penalty:
            return
        for layer in self.layers:
            total = self.penalty * sparsity_penalty(layer)
            parameters = list(layer.parameters())
            gradients = torch.autograd.grad(total, parameters, allow_unused=True)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                if parameter.grad is not None and gradient is not None:
                    parameter.grad.add_(gradient)

    def count_coefficients(self) -> dict[str, int]:
        """``knots_used`` of ``knots``, counted in coefficients; empty where no layer can be pruned."""
        masks = [layer.mask for layer in self.layers if layer.mask is not None]
        if not masks:
            return {}
        used = sum(int(mask.sum()) for mask in masks)
        return {"knots_used": used, "knots": sum(mask.numel() for mask in masks)}

    def _inputs(self, run: Callable[[int], None]) -> list[tuple[SplineLayer, Tensor]]:
        """Each layer and its (..., features) inputs, as they are before any is changed."""
        inputs: dict[SplineLayer, list[Tensor]] = {layer: [] for layer in self.layers}
        hooks = [
            layer.register_forward_pre_hook(lambda layer, args: inputs[layer].append(args[0].flatten(0, -2)))
            for layer in self.layers
        ]
        try:
            run(NUM_TOKENS)
        finally:
            for hook in hooks:
                hook.remove()
        return [(layer, torch.cat(parts).float()) for layer, parts in inputs.items() if parts]


@contextlib.contextmanager
def _forgetting(layer: SplineLayer, optimizer: Optimizer) -> Iterator[None]:
    """Have every process take the first one's result, and the optimizer forget what has changed."""
    before = [parameter.detach().clone() for parameter in layer.parameters()]
    yield
    # Solved on each, they might differ in the last bit where processes run on different processors.
    broadcast([tensor.data for tensor in (*layer.parameters(), *layer.buffers())])
    for parameter, old in zip(layer.parameters(), before, strict=True):
        if not torch.equal(parameter, old):
            optimizer.state.pop(parameter, None)


def _step_at(share: float, max_steps: int) -> int:
    return min(round(share * max_steps), max_steps - 1)
