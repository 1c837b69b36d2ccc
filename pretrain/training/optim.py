"""Optimizer and schedule of a run."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import get_scheduler

from pretrain.config import OptimConfig


def total_steps(optim: OptimConfig, num_rows: int, rows_per_step: int) -> int:
    """Optimizer updates of a run; what does not fill a step at the end of the last epoch is left out."""
    if optim.max_steps is not None:
        return optim.max_steps
    return max(1, math.floor(optim.num_train_epochs * num_rows / rows_per_step))


def build_optimizer(model: nn.Module, optim: OptimConfig) -> torch.optim.Optimizer:
    """Make the optimizer; it decays matrices only: decay would pull norms and activations towards zero.

    Adafactor (Shazeer and Stern 2018) is torch's, with T5's settings: no momentum, updates clipped at a root
    mean square of 1 and then scaled by that of the parameter.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": optim.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    if optim.optimizer == "adafactor":
        return torch.optim.Adafactor(groups, lr=optim.learning_rate)
    betas = (optim.adam_beta1, optim.adam_beta2)
    return torch.optim.AdamW(groups, lr=optim.learning_rate, betas=betas, eps=optim.adam_epsilon, fused=True)


def build_scheduler(optimizer: torch.optim.Optimizer, optim: OptimConfig, max_steps: int) -> LambdaLR:
    """Warm-up and decay over ``max_steps`` updates."""
    warmup = math.ceil(optim.warmup_ratio * max_steps) if optim.warmup_steps is None else optim.warmup_steps
    return get_scheduler(
        optim.lr_scheduler_type, optimizer, num_warmup_steps=warmup, num_training_steps=max_steps
    )
