"""One update of the weights: forward and backward passes, clipping, the optimizer."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim import Optimizer

from pretrain.data.batches import Batch
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
        self._parameters = list(unwrapped.model.parameters())
        self._followers: list[Any] = [m for m in unwrapped.model.modules() if hasattr(m, "after_update")]

    def __call__(self, batches: Sequence[Batch], num_targets: int) -> Tensor:
        """Do the update.

        Args:
            batches: This process's forward passes, on the device.
            num_targets: Predicted tokens of the whole step, over all processes.

        Returns:
            (2,) on the device: loss in nats per target token, unclipped gradient norm.
        """
        total = torch.zeros((), device=self._accelerator.device)
        for number, batch in enumerate(batches, start=1):
            with self._synchronised(number == len(batches)):
                loss = self._loss(**batch) / num_targets
                # Gradients are averaged over processes, but the step's loss is a sum over all of them.
                (loss * self._accelerator.num_processes).backward()
            total += loss.detach()
        self._splines.add_penalty_gradients()
        grad_norm = nn.utils.clip_grad_norm_(self._parameters, self._max_norm)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        for module in self._followers:  # what learns by other means than gradients, as the balance of moe
            module.after_update(lambda tensor: self._accelerator.reduce(tensor, "sum"))
        summed: Any = self._accelerator.reduce(total, "sum")
        return torch.stack([summed, grad_norm.to(total.dtype)])

    def _synchronised(self, last: bool) -> AbstractContextManager[Any]:
        """Processes exchange gradients only in the last forward pass of a step."""
        return contextlib.nullcontext() if last else self._accelerator.no_sync(self._loss)
