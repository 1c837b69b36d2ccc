"""Which learning rate and which weight decay each parameter of a model has."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from ffn_variants import get_variant
from ffn_variants.models.layers import ffn_modules
from ffn_variants.spec import out_first
from pretrain.config import OptimConfig
from pretrain.muon import View
from pretrain.optimizers import get_optimizer

SPARED = frozenset({"bias", "denominator", "knots", "scale", "translation"})
"""How names of parameters end that weight decay spares, whatever their shape: a wavelet is divided by its
scale."""
MUP_FAN_IN = 128
"""Inputs of the matrices whose learning rate ``optim.width_scaling mup`` leaves as it is."""
MUP_POWERS = {
    **dict.fromkeys(("weight", "outer_weight", "spline_scaler", "lm_head.weight"), 1.0),
    **dict.fromkeys(("translation", "scale", "inner_weight", "inner_bias"), 0.5),
}
"""Of parameters (..., out, in) that multiply no inputs: the power of the inputs of an output by which ``mup``
divides their rate.

All add up in an output. Factors of functions of edges (of ``wav-kan``, ``mlp-edge``, ``kan``), and an output
head that is no embedding (Yang et al. 2022, arXiv:2203.03466, table 3), do so as a matrix does. What is
inside such a function, as a wavelet's place, does so through factors that go as 1 / sqrt(inputs).
"""


@dataclass(frozen=True)
class Weight:
    """A parameter, and what an optimizer must know of it."""

    name: str
    parameter: nn.Parameter
    is_ffn: bool
    """Whether it belongs to a layer's FFN."""
    view: View | None
    """Its matrices from all inputs to outputs, as ``FFNSpec.matrices`` has them; None if it holds none."""

    @property
    def decays(self) -> bool:
        """Whether it is of weights: vectors, and places and widths on the axis of inputs, are spared."""
        return self.parameter.ndim >= 2 and self.name.rpartition(".")[2].rpartition("_")[2] not in SPARED


def learnable_weights(model: nn.Module) -> list[Weight]:
    """List the parameters that are trained, in the model's order."""
    ffns = [ffn for layer in model.modules() for ffn in ffn_modules(layer)]
    of_ffns = {id(parameter) for ffn in ffns for parameter in ffn.parameters()}
    views = dict(_views(model, ffns))
    return [
        Weight(name, parameter, id(parameter) in of_ffns, views.get(id(parameter)))
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    ]


def _views(model: nn.Module, ffns: Iterable[nn.Module]) -> Iterator[tuple[int, View]]:
    """Yield the weights of linear layers inside a network, and what the variant says of its other tensors.

    Embeddings and output head are left out, as in the works of Jordan and of Liu et al. (2025,
    arXiv:2502.16982): their rows belong to single tokens.
    """
    head = model.get_output_embeddings() if isinstance(model, PreTrainedModel) else None
    modules = list(model.modules())
    tables = {id(m.weight) for m in modules if isinstance(m, nn.Embedding) or m is head}
    for module in modules:
        if isinstance(module, nn.Linear) and id(module.weight) not in tables:
            yield id(module.weight), out_first
    for ffn in ffns:
        config: Any = model.config
        spec = get_variant(config.ffn)
        options = spec.resolve(config.ffn_options)
        for name, parameter in ffn.named_parameters():
            for ending, view in spec.matrices.items():
                if name == ending or name.endswith(f".{ending}"):
                    yield id(parameter), functools.partial(view, **options)


def parameter_groups(weights: Iterable[Weight], optim: OptimConfig) -> list[dict[str, Any]]:
    """Sort parameters into torch's groups, each with its ``lr`` and its ``weight_decay``.

    Decay is for weights only: it would pull norms and activations towards zero. The first group has the
    model's own learning rate, if any has.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {(1.0, optim.weight_decay): [], (1.0, 0.0): []}
    for weight in weights:
        key = (_rate_factor(weight, optim), _decay(weight, optim))
        groups.setdefault(key, []).append(weight.parameter)
    return [
        {"params": parameters, "lr": factor * optim.learning_rate, "weight_decay": decay}
        for (factor, decay), parameters in groups.items()
    ]


def _decay(weight: Weight, optim: OptimConfig) -> float:
    if not weight.decays:
        return 0.0
    own = optim.ffn_weight_decay if weight.is_ffn else None
    return optim.weight_decay if own is None else own


def _rate_factor(weight: Weight, optim: OptimConfig) -> float:
    own = optim.ffn_learning_rate_factor if weight.is_ffn else 1.0
    if optim.width_scaling == "none":
        return own
    if weight.view is None:
        power = MUP_POWERS.get(weight.name.rpartition(".")[2] if weight.is_ffn else weight.name, 0)
        shape = weight.parameter.shape
        return own * (MUP_FAN_IN * shape[-2] / shape.numel()) ** power if len(shape) > 1 else own
    matrix = weight.view(weight.parameter.detach())[0]  # of a KAN's coefficients inputs x basis functions
    outputs, inputs = len(matrix), matrix[0].numel()
    # An update should change outputs by as much at every width: its spectral norm is to go as
    # sqrt(outputs / inputs) (Yang et al. 2023, arXiv:2310.17813). That of AdamW's, of equal entries and low
    # rank, goes as sqrt(outputs x inputs), that of Muon's as sqrt(max(outputs, inputs)).
    if get_optimizer(optim.optimizer).only_matrices:
        return own * math.sqrt(MUP_FAN_IN * outputs / inputs / max(outputs, inputs))
    return own * MUP_FAN_IN / inputs
