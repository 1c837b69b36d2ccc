"""Another FFN in a pretrained model: its config, and every weight that stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pkgutil import resolve_name
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from base.errors import UsageError
from base.families import FAMILIES, Budget, FamilySpec, family_of
from ffn_variants.budget import matching_width
from ffn_variants.models.configuration import FFNConfig
from ffn_variants.models.family_models import build_config
from ffn_variants.models.layers import ffn_modules
from ffn_variants.registry import get_variant
from ffn_variants.variant_files import find_variant

ACTIVATIONS: Mapping[str, tuple[str, dict[str, Any] | None]] = {
    "gelu_new": ("gelu", {"approximate": "tanh"}),
    "gelu_pytorch_tanh": ("gelu", {"approximate": "tanh"}),
    "gelu": ("gelu", {"approximate": "none"}),
    "relu": ("relu", None),
    "silu": ("silu", None),
    "swish": ("silu", None),
}
"""What transformers calls the activations of stock models, as variants."""
_CHOOSES_ACTIVATION = ("activation_function", "hidden_act", "feed_forward_proj")
_OWN = (
    *("ffn", "ffn_options", "ffn_source", "ffn_files", "paired_intermediate_size"),
    *("attention_layers", "architectures", "dtype", "transformers_version"),
)
"""Fields of a config that are not copied: they are set for the new model, or follow from others."""


def layers_of(model: PreTrainedModel) -> dict[str, nn.Module]:
    """Every layer with an FFN, by its name in the model and in order; a T5's encoder comes first."""
    return {name: module for name, module in model.named_modules() if ffn_modules(module)}


def present_ffn(model: PreTrainedModel) -> dict[str, Any]:
    """Return ``ffn``, ``ffn_options`` and ``intermediate_size`` of a model, as a config of ours has them.

    Returns:
        ``ffn`` is None where the registry has no variant like that of a stock model.
    """
    config = model.config
    width = getattr(config, "d_ff", None) or config.intermediate_size or 4 * config.hidden_size
    if hasattr(config, "ffn"):
        return {"ffn": config.ffn, "ffn_options": config.ffn_options or None, "intermediate_size": width}
    activations = [getattr(config, name, None) for name in (*_CHOOSES_ACTIVATION, "dense_act_fn")]
    name, options = ACTIVATIONS.get(next(filter(None, reversed(activations)), ""), (None, None))
    if getattr(config, "is_gated_act", False):
        name, options = None, None
    if config.model_type == "llama":  # of three linear layers
        name, options = ("swiglu" if name == "silu" and not config.mlp_bias else None), None
    return {"ffn": name, "ffn_options": options, "intermediate_size": width}


def swap_ffn(
    model: PreTrainedModel,
    ffn: str,
    *,
    ffn_options: Mapping[str, Any] | None = None,
    intermediate_size: int | None = None,
    budget: Budget = "width",
) -> PreTrainedModel:
    """Build the same model with another FFN, and with all weights outside of it.

    A variant that keeps the two linear layers takes their weights over as well, where the width is the same:
    gelu for gelu is the same model, to the bit. All other weights are new, from torch's generator.

    Args:
        model: A language model of transformers, stock or of ours: GPT-Neo, RoBERTa, T5 or Llama.
        ffn: A variant: a name in ``FFN_VARIANTS``, or path/to/mine.py:SPEC.
        ffn_options: The variant's options.
        intermediate_size: Inner width of the new FFNs, in channels; None takes the model's.
        budget: ``params``, ``active-params`` or ``flops`` take the width at which a new FFN has as many as a
            gelu one of that width.

    Returns:
        A model of ours in evaluation mode, on the model's device. ``save_pretrained`` saves it as any other.

    Raises:
        UsageError: For no model or one of another family, an unknown variant or option, or a width below 1.
    """
    if not isinstance(model, PreTrainedModel):
        raise UsageError(
            f"swap_ffn takes a model of transformers, got {model!r}; load it first, as by "
            "AutoModelForCausalLM.from_pretrained"
        )
    if not (intermediate_size is None or (type(intermediate_size) is int and intermediate_size > 0)):
        raise UsageError(f"intermediate_size must be at least 1, got {intermediate_size!r}")
    ffn = find_variant(ffn).name
    family = family_of(model.config.model_type)
    if family is None:
        raise UsageError(
            f"FFNs cannot be replaced in a model of type {model.config.model_type!r}; possible are "
            f"{', '.join(FAMILIES)}, ours or stock; in another, set the FFN of each layer yourself, as by "
            f"layer.mlp = ffn_ablations.ffn({ffn!r}, {getattr(model.config, 'hidden_size', 'hidden_size')})"
        )
    options = dict(ffn_options) if ffn_options else None
    old = present_ffn(model)
    width = intermediate_size or old["intermediate_size"]
    size = matching_width(ffn, options, model.config.hidden_size, width, budget, family.has_ffn_biases)
    new = {"ffn": ffn, "ffn_options": options, "intermediate_size": size}
    target_class: Any = resolve_name(family.model_class)
    target = target_class(_config(model, family, new)).eval()
    _take_over(model, target, old, new, family.stock_ffn)
    return target.to(model.device)


def _config(source: PreTrainedModel, family: FamilySpec, new: Mapping[str, Any]) -> FFNConfig:
    config_class: Any = resolve_name(family.config_class)
    width = config_class.attribute_map.get("intermediate_size", "intermediate_size")
    left_out = {*_CHOOSES_ACTIVATION, *_OWN, width}
    stored = source.config.to_dict()
    shared = {field.name for field in fields(config_class)} & set(stored)
    values = {name: stored[name] for name in sorted(shared - left_out)}
    return build_config(family.name, **values, **new)


def _take_over(
    source: PreTrainedModel,
    target: PreTrainedModel,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    stock_ffn: str,
) -> None:
    """Copy all weights, but those of FFNs that the new variant has no use for."""
    weights, state = _in_our_names(source.state_dict()), target.state_dict()
    has_same_layers = new["ffn"] == old["ffn"] == stock_ffn or get_variant(new["ffn"]).kind == "activation"
    fresh: set[str] = set()
    for name, layer in layers_of(target).items():
        ffn, linear = _ffn_keys(name, layer)
        fits = all(key in weights and weights[key].shape == state[key].shape for key in linear)
        if not (has_same_layers and fits):
            fresh |= ffn
        elif old != new:
            fresh |= ffn - linear
    copied = {key: value for key, value in weights.items() if key in state and key not in fresh}
    assert state.keys() == copied.keys() | fresh, "a weight outside the FFNs has no counterpart"
    target.load_state_dict(copied, strict=False)
    target.tie_weights()


def _in_our_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Name the FFN weights of a stock Llama as those of ``swiglu``: its gate above what it gates."""
    renamed = dict(weights)
    for key in weights:
        if key.endswith(".mlp.gate_proj.weight"):
            ffn = key.removesuffix("gate_proj.weight")
            parts = [renamed.pop(f"{ffn}{name}.weight") for name in ("gate_proj", "up_proj")]
            renamed[f"{ffn}c_fc.weight"] = torch.cat(parts)
            renamed[f"{ffn}c_proj.weight"] = renamed.pop(f"{ffn}down_proj.weight")
    return renamed


def _ffn_keys(name: str, layer: nn.Module) -> tuple[set[str], set[str]]:
    """The names in a state dict of all that a layer's FFN has, and of its linear layers alone."""
    ffn, linear = set(), set()
    inside = {id(part) for part in ffn_modules(layer)}
    for path, module in layer.named_modules(prefix=name):
        if id(module) in inside:
            ffn |= {f"{path}.{key}" for key in module.state_dict()}
            for below, part in module.named_modules(prefix=path):
                linear |= (
                    {f"{below}.{key}" for key in part.state_dict()} if type(part) is nn.Linear else set()
                )
    return ffn, linear
