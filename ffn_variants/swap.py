"""Another FFN in a pretrained model: its config, and every weight that stays."""

from __future__ import annotations

import copy
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
from ffn_variants.models.layers import DroppedOutFFN, ffn_modules
from ffn_variants.registry import build_ffn, get_variant
from ffn_variants.spec import INNER_NAMES
from ffn_variants.variant_files import find_variant
from ffn_variants.variants.activations import ActivationFFN

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
    """Return a copy of a model with another FFN, and with all weights outside of it.

    A variant that keeps the two linear layers takes their weights over as well, where the width is the same:
    gelu for gelu is the same model, to the bit. All other weights are new, from torch's generator.

    In another architecture every module ``mlp`` of a block that maps (..., D) to (..., D) is replaced, as in
    GPT-2, GPT-NeoX, Qwen, Mistral and Gemma. All weights of the new FFNs are new, those of linear layers with
    the model's standard deviation, and the config knows nothing of them: ``from_pretrained`` cannot load
    what ``save_pretrained`` saved; ``load_state_dict`` of what ``swap_ffn`` returns can.

    Args:
        model: A language model of transformers, stock or of ours: GPT-Neo, RoBERTa, T5 or Llama; or another.
        ffn: A variant: a name in ``FFN_VARIANTS``, or path/to/mine.py:SPEC.
        ffn_options: The variant's options.
        intermediate_size: Inner width of the new FFNs, in channels; None takes the model's.
        budget: ``params``, ``active-params`` or ``flops`` take the width at which a new FFN has as many as a
            gelu one of that width.

    Returns:
        A model of ours, or of the same class, in evaluation mode, on the model's device.
        ``save_pretrained`` saves one of ours as any other.

    Raises:
        UsageError: For no model or one without such FFNs, an unknown variant or option, or a width below 1.
    """
    if not isinstance(model, PreTrainedModel):
        raise UsageError(
            f"swap_ffn takes a model of transformers, got a {type(model).__name__}; load one first, as by "
            "AutoModelForCausalLM.from_pretrained"
        )
    if not (intermediate_size is None or (type(intermediate_size) is int and intermediate_size > 0)):
        raise UsageError(f"intermediate_size must be at least 1, got {intermediate_size!r}")
    ffn = find_variant(ffn).name
    family = family_of(model.config.model_type)
    options = dict(ffn_options) if ffn_options else None
    if family is None:
        return _with_other_mlps(model, ffn, options, intermediate_size, budget)
    old = present_ffn(model)
    width = intermediate_size or old["intermediate_size"]
    size = matching_width(ffn, options, model.config.hidden_size, width, budget, family.has_ffn_biases)
    new = {"ffn": ffn, "ffn_options": options, "intermediate_size": size}
    target_class: Any = resolve_name(family.model_class)
    target = target_class(_config(model, family, new)).eval()
    _take_over(model, target, old, new, family.stock_ffn)
    return target.to(model.device)


def _with_other_mlps(
    model: PreTrainedModel, ffn: str, options: dict[str, Any] | None, width: int | None, budget: Budget
) -> PreTrainedModel:
    target, config = copy.deepcopy(model).eval(), model.config
    blocks: list[Any] = [
        each for each in target.modules() if isinstance(getattr(each, "mlp", None), nn.Module)
    ]
    size, given = getattr(config, "hidden_size", 0), config.to_dict()
    if not blocks or not all(_keeps_shape(block.mlp, size) for block in blocks):
        raise UsageError(
            f"FFNs cannot be replaced in a model of type {config.model_type!r}; possible are "
            f"{', '.join(FAMILIES)}, and those whose blocks have a module mlp from (..., {size}) to the same"
        )
    inner = width or next((given[name] for name in INNER_NAMES if given.get(name)), 4 * size)
    for block in blocks:
        old = block.mlp
        has_biases = any(name.endswith("bias") for name, _ in old.named_parameters())
        size_inside = matching_width(ffn, options, size, inner, budget, has_biases)
        new = build_ffn(ffn, size, size_inside, **options or {})
        if isinstance(new, ActivationFFN):
            new = ActivationFFN(size, size_inside, new.act, bias=has_biases)
        new.apply(target._init_weights).to(next(old.parameters())).eval()
        dropout = getattr(old, "dropout", None)
        block.mlp = DroppedOutFFN(new, dropout) if isinstance(dropout, nn.Module) else new
    return target


@torch.no_grad()
def _keeps_shape(mlp: nn.Module, size: int) -> bool:
    """Whether it maps (..., D) to (..., D), and takes nothing else."""
    try:
        zeros = next(mlp.parameters()).new_zeros(1, 1, size)
        return mlp(zeros).shape == zeros.shape
    except Exception:  # of a module that is none
        return False


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
