"""Heads of one or two layers, what every head returns, and how a head is built.

Shapes: n examples, D hidden_size, C labels.

What every head returns.

Shapes: n examples, M vectors of the longest example, C labels.
"""

from __future__ import annotations

import math
from pkgutil import resolve_name
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ffn_variants.variants.bump_kan import RBFKANLinear
from ffn_variants.variants.kan import KANLinear
from ffn_variants.variants.learned_curves import GroupRational, choose_groups
from ffn_variants.variants.series_kan import ChebyKANLinear, FourierKANLinear
from ffn_variants.variants.spline_kan import FeatureSplines
from scores.heads.registry import HeadChoice, get_head


class HeadOutput(NamedTuple):
    """What a head makes of a batch.

    Attributes:
        logits: (n, C).
        auxiliary_loss: A scalar that training adds to the loss of the logits; None for most heads.
        segment_scores: (n, M, C), what each segment adds to or says of each label; None without segments.
    """

    logits: Tensor
    auxiliary_loss: Tensor | None = None
    segment_scores: Tensor | None = None


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


INIT_STD = 0.02
"""Of linear layers at the start, as transformers' heads have it."""


class ExampleHead(nn.Module):
    """Any module from (n, D) to (n, C) as a head.

    Args:
        layers: The module.
    """

    def __init__(self, layers: nn.Module):
        super().__init__()
        self.layers = layers

    def forward(self, vectors: Tensor, mask: Tensor | None = None) -> HeadOutput:
        return HeadOutput(self.layers(vectors))


def linear(in_features: int, out_features: int) -> nn.Linear:
    """Make a linear layer that starts as transformers' heads do: normal weights, no bias."""
    layer = nn.Linear(in_features, out_features)
    nn.init.normal_(layer.weight, std=INIT_STD)
    nn.init.zeros_(layer.bias)
    return layer


def mlp_width(hidden_size: int, num_labels: int, num_params: int) -> int:
    """Return the smallest width, one at least, at which an ``mlp`` has that many parameters or more."""
    return max(1, math.ceil((num_params - num_labels) / (hidden_size + num_labels + 1)))


def build_linear(hidden_size: int, num_labels: int) -> ExampleHead:
    """One linear layer."""
    return ExampleHead(linear(hidden_size, num_labels))


def build_mlp(hidden_size: int, num_labels: int, width: int, match: str) -> ExampleHead:
    """Two linear layers with a sigmoid between, as wide as asked for or as matches another head."""
    if match != "none":
        num_params = count_parameters(HeadChoice(match), hidden_size, num_labels)
        width = mlp_width(hidden_size, num_labels, num_params)
    return ExampleHead(nn.Sequential(linear(hidden_size, width), nn.Sigmoid(), linear(width, num_labels)))


def build_fourier_kan(hidden_size: int, num_labels: int, grid_size: int, init_scale: float) -> ExampleHead:
    """One layer of `fourier-kan`, without a bias."""
    return ExampleHead(
        FourierKANLinear(hidden_size, num_labels, bias=False, grid_size=grid_size, init_scale=init_scale)
    )


def build_kan(hidden_size: int, num_labels: int, grid_size: int, spline_order: int) -> ExampleHead:
    """One layer of `kan`."""
    return ExampleHead(KANLinear(hidden_size, num_labels, grid_size=grid_size, spline_order=spline_order))


def build_cheby_kan(hidden_size: int, num_labels: int, degree: int) -> ExampleHead:
    """One layer of `cheby-kan`."""
    return ExampleHead(ChebyKANLinear(hidden_size, num_labels, degree=degree))


def build_rbf_kan(hidden_size: int, num_labels: int, grid_size: int, init_scale: float) -> ExampleHead:
    """One layer of `rbf-kan`."""
    return ExampleHead(RBFKANLinear(hidden_size, num_labels, grid_size=grid_size, init_scale=init_scale))


def build_gr_kan(hidden_size: int, num_labels: int, groups: int) -> ExampleHead:
    """The rational of `gr-kan` on every feature, then a linear layer."""
    num_groups = choose_groups(hidden_size, hidden_size, groups)
    return ExampleHead(nn.Sequential(GroupRational(num_groups, "identity"), linear(hidden_size, num_labels)))


def build_spline_kan(hidden_size: int, num_labels: int, num_knots: int) -> ExampleHead:
    """A spline of `spline-kan` on every feature, then a linear layer."""
    return ExampleHead(nn.Sequential(FeatureSplines(hidden_size, num_knots), linear(hidden_size, num_labels)))
