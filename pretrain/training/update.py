"""Updates of the weights: the optimizer and its schedule, and what one update does."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel, get_scheduler

from pretrain.config import OptimConfig
from pretrain.data.step_batches import Batch
from pretrain.optimizers import build_adamw, get_optimizer
from pretrain.training.knots import SplineSchedule
from pretrain.training.schedule import num_warmup_steps


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


SPARED = frozenset({"bias", "denominator", "knots", "scale", "translation"})
"""How names of parameters end that weight decay spares, whatever their shape: a wavelet is divided by its
scale."""


def build_optimizer(model: nn.Module, optim: OptimConfig) -> Optimizer:
    """Make a model's optimizer; it decays weights only: decay would pull norms and activations towards zero.

    Raises:
        UsageError: As ``get_optimizer`` and ``OptimizerSpec.resolve``.
    """
    spec = get_optimizer(optim.optimizer)
    options = spec.resolve(optim)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not spec.only_matrices:
        return spec.build(_groups(parameters, optim), optim, **options)
    matrices = [parameter for parameter in hidden_matrices(model) if parameter.requires_grad]
    matrix_ids = set(map(id, matrices))
    others = {name: p for name, p in parameters.items() if id(p) not in matrix_ids}
    groups = [{"params": matrices, "weight_decay": optim.weight_decay}]
    return WithAdamW(spec.build(groups, optim, **options), build_adamw(_groups(others, optim), optim))


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Weights of the linear layers inside a network, which are what Muon is for.

    Embeddings and output head are left out, as in the works of Jordan and of Liu et al. (2025,
    arXiv:2502.16982): their rows belong to single tokens. So is whatever a layer keeps outside of a
    ``nn.Linear``, as its shape does not say what it is: coefficients of KANs are stacks of numbers of edges,
    a memory's values are rows that are looked up, and some two-dimensional ones are knots.
    """
    head = model.get_output_embeddings() if isinstance(model, PreTrainedModel) else None
    modules = list(model.modules())
    tables = {id(m.weight) for m in modules if isinstance(m, nn.Embedding) or m is head}
    inside = {id(m.weight) for m in modules if isinstance(m, nn.Linear)} - tables
    return [parameter for parameter in model.parameters() if id(parameter) in inside]


class WithAdamW(Optimizer):
    """Two optimizers as one, with one list of groups and one state.

    Args:
        first: Of the matrices; one group.
        adamw: Of the other parameters.
    """

    def __init__(self, first: Optimizer, adamw: Optimizer) -> None:
        super().__init__([*first.param_groups, *adamw.param_groups], {})
        self._first, self._adamw = first, adamw

    def step(self, closure: Any = None) -> None:  # type: ignore[bad-override]
        """Update every parameter that has a gradient."""
        assert closure is None
        # At each step, as load_state_dict makes both anew.
        self._first.param_groups, self._adamw.param_groups = self.param_groups[:1], self.param_groups[1:]
        for part in (self._first, self._adamw):
            part.state = self.state
            part.step()


def _groups(parameters: Mapping[str, nn.Parameter], optim: OptimConfig) -> list[dict[str, Any]]:
    """Parameters that decay and those that do not."""
    decay = {name: _decays(name, parameter) for name, parameter in parameters.items()}
    return [
        {"params": [p for name, p in parameters.items() if decay[name]], "weight_decay": optim.weight_decay},
        {"params": [p for name, p in parameters.items() if not decay[name]], "weight_decay": 0.0},
    ]


def _decays(name: str, parameter: nn.Parameter) -> bool:
    """Whether a parameter is a matrix of weights, and not one of places or widths on the axis of inputs."""
    return parameter.ndim >= 2 and name.rpartition(".")[2].rpartition("_")[2] not in SPARED


def build_scheduler(optimizer: Optimizer, optim: OptimConfig, max_steps: int) -> LambdaLR:
    """Warm-up and decay over ``max_steps`` updates."""
    warmup = num_warmup_steps(optim, max_steps)
    return get_scheduler(
        optim.lr_scheduler_type, optimizer, num_warmup_steps=warmup, num_training_steps=max_steps
    )
