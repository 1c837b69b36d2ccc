"""Updates of the weights: the optimizer and its schedule, and what one update does."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from transformers import get_scheduler

from pretrain.config import OptimConfig
from pretrain.data.step_batches import Batch
from pretrain.model.parameter_groups import learnable_weights, parameter_groups
from pretrain.optimizers import build_adamw, get_optimizer
from pretrain.training.knots import SplineSchedule


class Update:
    """Updates a model by the loss of a step.

    Args:
        accelerator: Devices and processes.
        loss: The prepared module of model and loss.
        optimizer: Of the model in it.
        splines: What is added to the loss for splines.
        max_grad_norm: Global norm that gradients are clipped to; None never clips.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        loss: nn.Module,
        optimizer: Optimizer,
        splines: SplineSchedule,
        max_grad_norm: float | None,
    ) -> None:
        self._accelerator, self._loss, self._optimizer = accelerator, loss, optimizer
        self._splines = splines
        self._max_norm = math.inf if max_grad_norm is None else max_grad_norm
        unwrapped: Any = accelerator.unwrap_model(loss)
        self.parameters = list(unwrapped.model.parameters())
        self._followers: list[Any] = [m for m in unwrapped.model.modules() if hasattr(m, "after_update")]

    def passes(self, batches: Sequence[Batch], num_targets: Tensor | int) -> Tensor:
        """Do the forward and backward passes of a step, which add to the gradients.

        Args:
            batches: This process's forward passes, on the device.
            num_targets: Predicted tokens of the whole step, over all processes.

        Returns:
            () on the device: this process's share of the loss, in nats per target token.
        """
        total = torch.zeros((), device=self._accelerator.device)
        for number, batch in enumerate(batches, start=1):
            # Processes exchange gradients only in the last forward pass of a step.
            is_last = number == len(batches)
            with contextlib.nullcontext() if is_last else self._accelerator.no_sync(self._loss):
                loss = self._loss(**batch) / num_targets
                # Gradients are averaged over processes, but the step's loss is a sum over all of them.
                (loss * self._accelerator.num_processes).backward()
            total += loss.detach()
        return total

    def apply(self, loss: Tensor) -> Tensor:
        """Update the weights by their gradients, and drop these.

        Args:
            loss: What ``passes`` gave.

        Returns:
            (2,) on the device: loss in nats per target token, unclipped gradient norm.
        """
        self._splines.add_penalty_gradients()
        grad_norm = nn.utils.clip_grad_norm_(self.parameters, self._max_norm)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        for module in self._followers:  # what learns by other means than gradients, as the balance of moe
            module.after_update(lambda tensor: self._accelerator.reduce(tensor, "sum"))
        summed: Any = self._accelerator.reduce(loss, "sum")
        return torch.stack([summed, grad_norm.to(loss.dtype)])


def build_optimizer(model: nn.Module, optim: OptimConfig) -> Optimizer:
    """Make a model's optimizer.

    Raises:
        UsageError: As ``get_optimizer`` and ``OptimizerSpec.resolve``.
    """
    spec = get_optimizer(optim.optimizer)
    options = spec.resolve(optim)
    weights = learnable_weights(model)
    if not spec.only_matrices:
        return spec.build(parameter_groups(weights, optim), optim, **options)
    matrices = [weight for weight in weights if weight.view is not None]
    others = [weight for weight in weights if weight.view is None]
    views = {weight.parameter: weight.view for weight in matrices}
    return WithAdamW(
        spec.build(parameter_groups(matrices, optim), optim, views=views, **options),
        build_adamw(parameter_groups(others, optim), optim),
    )


class WithAdamW(Optimizer):
    """Two optimizers as one, with one list of groups and one state.

    Args:
        first: Of the matrices.
        adamw: Of the other parameters.
    """

    def __init__(self, first: Optimizer, adamw: Optimizer) -> None:
        super().__init__([*first.param_groups, *adamw.param_groups], {})
        self._first, self._adamw, self._num_first = first, adamw, len(first.param_groups)

    def step(self, closure: Any = None) -> None:  # type: ignore[bad-override]
        """Update every parameter that has a gradient."""
        assert closure is None
        # At each step, as load_state_dict makes both anew.
        self._first.param_groups = self.param_groups[: self._num_first]
        self._adamw.param_groups = self.param_groups[self._num_first :]
        for part in (self._first, self._adamw):
            part.state = self.state
            part.step()


def build_scheduler(optimizer: Optimizer, optim: OptimConfig, max_steps: int) -> LambdaLR:
    """Warm-up and decay over ``max_steps`` updates."""
    warmup = optim.num_warmup_steps(max_steps)
    return get_scheduler(
        optim.lr_scheduler_type, optimizer, num_warmup_steps=warmup, num_training_steps=max_steps
    )
