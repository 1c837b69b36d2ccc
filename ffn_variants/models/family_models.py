"""The models of each family: how to build them. Importing this registers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pkgutil import resolve_name
from typing import Any

import transformers
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedModel

from base.errors import UsageError, unknown_name
from base.families import AUTO_CLASSES, FAMILIES, FamilySpec, get_family
from ffn_variants.models.configuration import FFNConfig
from ffn_variants.registry import get_variant
from ffn_variants.source_fingerprint import source_fingerprint


def _register(family: FamilySpec) -> None:
    """Let transformers' Auto classes find a family's models."""
    config: Any = resolve_name(family.config_class)
    AutoConfig.register(config.model_type, config)
    AutoModel.register(config, resolve_name(family.backbone_class))
    AutoModelForSequenceClassification.register(config, resolve_name(family.classifier_class))
    language_model: Any = getattr(transformers, AUTO_CLASSES[family.objective])
    language_model.register(config, resolve_name(family.model_class))


for _family in FAMILIES.values():
    _register(_family)


def build_config(
    family: str, ffn: str, ffn_options: Mapping[str, Any] | None = None, **config: Any
) -> FFNConfig:
    """Make the config of a model; arguments and errors as in ``build_model``."""
    spec = get_family(family)
    get_variant(ffn).resolve(ffn_options)
    config_class: Any = resolve_name(spec.config_class)
    field_names = {f.name for f in fields(config_class)} - {"ffn_source"}
    aliases = config_class.attribute_map
    values = {aliases.get(name, name): value for name, value in {**spec.defaults, **config}.items()}
    for name in values:
        # transformers would store an unknown field without a word.
        if name not in field_names and name != "num_labels":
            raise unknown_name(f"{family} config field", name, sorted(field_names | set(aliases)))
    width, heads = (values[aliases.get(name, name)] for name in ("hidden_size", "num_attention_heads"))
    spec.check_heads(width, heads, values.get("head_dim"))
    shared = values.get("num_key_value_heads")  # Llama's
    if shared is not None and (shared < 1 or heads % shared):
        raise UsageError(f"num_attention_heads {heads} is not a multiple of num_key_value_heads {shared}")
    for name, value in config_class.derived_values(values).items():
        if values.get(name) is None:
            values[name] = value
    ffn_fields = {
        "ffn_options": dict(ffn_options) if ffn_options else None,
        "ffn_source": source_fingerprint(ffn) or None,
    }
    return config_class(ffn=ffn, **ffn_fields, **values)


def build_model(
    family: str, ffn: str, ffn_options: Mapping[str, Any] | None = None, **config: Any
) -> PreTrainedModel:
    """Build a model with one variant in every layer, initialised from torch's global generator.

    Seed that generator before the call: at one seed and one ``intermediate_size`` all weights outside the FFN
    are the same for every variant. For another ``intermediate_size``, name that of the paired run in
    ``paired_intermediate_size``. After the call the generator's state depends on the variant.

    Args:
        family: ``"gpt_neo"`` or ``"llama"`` for a causal language model, ``"roberta"`` for a masked one or
            ``"t5"`` for an encoder-decoder.
        ffn: A name in ``FFN_VARIANTS``. ``"gelu"`` without options is the stock model: tanh-GELU in GPT-Neo
            and T5 (``feed_forward_proj`` "gelu_new"), erf-GELU in RoBERTa; the stock Llama is ``"swiglu"``.
        ffn_options: Options of the variant.
        **config: Fields of the family's transformers config, such as hidden_size or num_hidden_layers (of a
            T5 those of the encoder; the decoder has as many); what is not given is as in the source study.

    Returns:
        The family's language model, such as an ``FFNGPTNeoForCausalLM``, on the default device.

    Raises:
        UsageError: For an unknown family, variant, option or config field.
    """
    model_class: Any = resolve_name(get_family(family).model_class)
    return model_class(build_config(family, ffn, ffn_options, **config))
