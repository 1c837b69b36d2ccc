"""From the registry's data to the module of a head."""

from __future__ import annotations

from pkgutil import resolve_name

import torch
from torch import nn

from eval.classification.heads.choice import HeadChoice
from eval.classification.heads.registry import get_head


def build_head(choice: HeadChoice, hidden_size: int, num_labels: int) -> nn.Module:
    """Build a head, initialised from torch's global generator; errors as in ``check_head``."""
    spec = get_head(choice.name)
    build = resolve_name(spec.builder)
    return build(hidden_size, num_labels, **spec.resolve(dict(choice.options)))


def count_parameters(choice: HeadChoice, hidden_size: int, num_labels: int) -> int:
    """Count the learnable parameters of a head, biases included."""
    with torch.device("meta"):
        module = build_head(choice, hidden_size, num_labels)
    return sum(parameter.numel() for parameter in module.parameters())
