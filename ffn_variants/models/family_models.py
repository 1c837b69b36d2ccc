"""The models of each family: how to build them, and what they cost. Importing this registers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pkgutil import resolve_name
from typing import Any

import transformers
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedModel
from transformers.models.t5.modeling_t5 import T5Attention

from base.errors import UsageError, unknown_name
from base.families import AUTO_CLASSES, FAMILIES, FamilySpec, get_family
from ffn_variants.models.configuration import FFNConfig
from ffn_variants.models.layers import ffn_modules
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


def count_flops(
    model: PreTrainedModel, num_tokens: int, num_decoder_tokens: int | None = None
) -> dict[str, int]:
    """Count the floating-point operations of a model's forward pass for one token of a row of ``num_tokens``.

    Two for each multiply-add of a matrix product, as ``torch.utils.flop_counter`` counts: every linear layer
    and the output head at every token, and the two products of attention (scores and values) with all
    ``num_tokens`` tokens of the row, as eager attention computes them before it masks. Embeddings, norms,
    biases, softmax and activations are left out; of an FFN counts what its spec counts. Pretraining projects
    only the predicted tokens to the vocabulary, so a RoBERTa costs less there. A backward pass costs about
    twice as much again.

    Args:
        model: A model that ``build_model`` or ``from_pretrained`` gave.
        num_tokens: T, tokens of a row; for a pretraining run its block_size. Of a T5 those of the encoder.
        num_decoder_tokens: Tokens that a T5's decoder reads for such a row; None for as many.

    Returns:
        ``total`` and its three parts: ``ffn`` (all layers), ``attention`` (its two products, without its
        linear layers) and ``other`` (all linear layers outside the FFN). Of a T5 everything, the decoder's
        too, is divided by the tokens of the encoder's row.
    """
    config: Any = model.config
    decoder_tokens = num_tokens if num_decoder_tokens is None else num_decoder_tokens
    width = config.intermediate_size or 4 * config.hidden_size
    ffn_flops = get_variant(config.ffn).flops_per_token(config.hidden_size, width, **config.ffn_options or {})
    inside = {part for layer in model.modules() for ffn in ffn_modules(layer) for part in ffn.modules()}
    ffn = attention = other = 0
    for name, module in model.named_modules():
        in_decoder = "decoder." in name or (config.is_encoder_decoder and name == "lm_head")
        queries = decoder_tokens if in_decoder else num_tokens
        if ffn_modules(module):
            ffn += queries * ffn_flops
            if not config.is_encoder_decoder:  # one attention before each FFN
                attention += 4 * queries * num_tokens * config.hidden_size
        elif isinstance(module, T5Attention):
            keys = num_tokens if name.endswith("EncDecAttention") else queries
            attention += 4 * queries * keys * module.inner_dim
        elif isinstance(module, nn.Linear) and module not in inside:
            of_encoder = name.endswith(("EncDecAttention.k", "EncDecAttention.v"))
            other += 2 * (num_tokens if of_encoder else queries) * module.weight.numel()
    parts = {"ffn": ffn, "attention": attention, "other": other}
    counts = {name: round(count / num_tokens) for name, count in parts.items()}
    return {"total": sum(counts.values()), **counts}


def count_parameters(model: PreTrainedModel) -> dict[str, int]:
    """Count a model's parameters, tied ones once.

    Returns:
        ``total`` and its three parts: ``ffn`` (all layers), ``embedding`` (token, position and segment
        tables) and ``other``.
    """
    total = sum(p.numel() for p in model.parameters())
    ffn = sum(
        p.numel() for module in model.modules() for part in ffn_modules(module) for p in part.parameters()
    )
    tables = {m.weight for m in model.modules() if isinstance(m, nn.Embedding)}
    embedding = sum(table.numel() for table in tables)
    return {"total": total, "ffn": ffn, "embedding": embedding, "other": total - ffn - embedding}
