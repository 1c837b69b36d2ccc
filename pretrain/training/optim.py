"""Optimizer and schedule of a run.

Both are made in one of two ways. On a CPU they are torch's and transformers' with learning rates that are
Python numbers. On a GPU (``on_device``) every number that changes with the steps is a tensor of the device,
the learning rate included: no update waits for the host, and all steps are the same operations on the same
tensors, as a CUDA graph needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from transformers import get_scheduler

from pretrain.config import OptimConfig
from pretrain.training.adafactor import DeviceAdafactor
from pretrain.training.muon import DeviceMuon, MuonWithAdamW, hidden_matrices

SPARED = frozenset({"bias", "denominator", "knots", "scale", "translation"})
"""Last word of names of what weight decay spares, whatever its shape: a wavelet is divided by its scale."""


def total_steps(optim: OptimConfig, num_rows: int, rows_per_step: int) -> int:
    """Optimizer updates of a run; what does not fill a step at the end of the last epoch is left out."""
    if optim.max_steps is not None:
        return optim.max_steps
    return max(1, math.floor(optim.num_train_epochs * num_rows / rows_per_step))


def build_optimizer(model: nn.Module, optim: OptimConfig, on_device: bool = False) -> Optimizer:
    """Make the optimizer; it decays weights only: decay would pull norms and activations towards zero.

    Adafactor (Shazeer and Stern 2018) is torch's, or computes the same, with T5's settings: no momentum,
    updates clipped at a root mean square of 1 and then scaled by that of the parameter. Muon is torch's, or
    computes the same, for the weights of linear layers; what else there is has AdamW.

    Args:
        model: Whose parameters it updates.
        optim: Its settings.
        on_device: Whether it reads nothing from the device. The groups' ``lr`` is then one float32 tensor
            beside the parameters, and all state lies there too.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if optim.optimizer == "adafactor":
        kind = DeviceAdafactor if on_device else torch.optim.Adafactor
        built = kind(_groups(parameters, optim), lr=optim.learning_rate)
    elif optim.optimizer == "muon":
        matrices = [parameter for parameter in hidden_matrices(model) if parameter.requires_grad]
        inside = set(map(id, matrices))
        others = {name: p for name, p in parameters.items() if id(p) not in inside}
        built = MuonWithAdamW(_muon(matrices, optim, on_device), _adamw(others, optim, on_device))
    else:
        built = _adamw(parameters, optim, on_device)
    if on_device:  # not in the constructor, which compares the rate with 0 on the host
        device = next(iter(parameters.values())).device
        rate = torch.full((), optim.learning_rate, dtype=torch.float32, device=device)
        for group in built.param_groups:
            group["lr"] = rate
    return built


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


def _adamw(parameters: Mapping[str, nn.Parameter], optim: OptimConfig, on_device: bool) -> Optimizer:
    return torch.optim.AdamW(
        _groups(parameters, optim),
        lr=optim.learning_rate,
        betas=(optim.adam_beta1, optim.adam_beta2),
        eps=optim.adam_epsilon,
        fused=True,
        capturable=on_device,
    )


def _muon(matrices: list[nn.Parameter], optim: OptimConfig, on_device: bool) -> Optimizer:
    kind = DeviceMuon if on_device else torch.optim.Muon
    groups = [{"params": matrices}]  # a list that may be empty, in a group
    # Updates as large as AdamW's, whose root mean square is 0.2 to 0.4: 0.2 (Liu et al., arXiv:2502.16982).
    return kind(
        groups,
        lr=optim.learning_rate,
        weight_decay=optim.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )


def build_scheduler(optimizer: Optimizer, optim: OptimConfig, max_steps: int) -> LambdaLR:
    """Warm-up and decay over ``max_steps`` updates."""
    warmup = num_warmup_steps(optim, max_steps)
    return get_scheduler(
        optim.lr_scheduler_type, optimizer, num_warmup_steps=warmup, num_training_steps=max_steps
    )


def num_warmup_steps(optim: OptimConfig, max_steps: int) -> int:
    """Updates before that with the peak rate; the first of them has the rate 0."""
    return math.ceil(optim.warmup_ratio * max_steps) if optim.warmup_steps is None else optim.warmup_steps


class Rates:
    """The learning rates of a run: what the host logs and saves, and what the optimizer reads.

    Attributes:
        scheduler: transformers' schedule. It drives the optimizer itself where that takes Python numbers;
            otherwise a stand-in of it on the host, as it would write numbers into the device's operations.
        used: Rate of the update that was counted last.

    Args:
        optimizer: Made by ``build_optimizer``.
        optim: The same settings.
        max_steps: Updates of the run.
    """

    used: float

    def __init__(self, optimizer: Optimizer, optim: OptimConfig, max_steps: int) -> None:
        rate = optimizer.param_groups[0]["lr"]
        self._rate: Tensor | None = rate if isinstance(rate, Tensor) else None
        self.scheduler = build_scheduler(
            optimizer if self._rate is None else _stand_in(optimizer, optim.learning_rate), optim, max_steps
        )
        if self._rate is not None:
            self.scheduler.optimizer.step()  # else the schedule warns that it goes before the optimizer
            share = self.scheduler.lr_lambdas[0]
            every = [optim.learning_rate * share(step) for step in range(max_steps + 1)]
            self._table = torch.tensor(every, dtype=torch.float32).to(self._rate.device)
            self._next = torch.zeros(1, dtype=torch.int64, device=self._rate.device)

    def go_to(self, step: int) -> None:
        """Have the next update be the one after so many."""
        if self._rate is not None:
            self._next.fill_(step)

    def write_next(self) -> None:
        """Have the optimizer read the rate of the next update; these are operations of the device alone."""
        if self._rate is not None:
            torch.index_select(self._table, 0, self._next, out=self._rate.view(1))
            self._next.add_(1).clamp_(max=len(self._table) - 1)

    def advance(self) -> None:
        """Count an update on the host."""
        self.used = float(self.scheduler.get_last_lr()[0])
        self.scheduler.step()


def _stand_in(optimizer: Optimizer, learning_rate: float) -> Optimizer:
    """An optimizer of nothing with as many groups, so that checkpoints of schedules look the same."""
    groups = [{"params": [torch.zeros(())]} for _ in optimizer.param_groups]
    return torch.optim.SGD(groups, lr=learning_rate)
