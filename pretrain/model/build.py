"""The model of a run, built from its configuration."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import ffn_variants
from base.families import get_family
from base.text.corruption import Masker, SpanCorruptor
from pretrain.config import ResolvedConfig
from pretrain.data.tokenizer import add_sentinels, load_tokenizer
from pretrain.model.parameter_groups import learnable_weights


def build(
    config: ResolvedConfig, vocab_size: int, token_ids: dict[str, int] | None = None
) -> PreTrainedModel:
    """Build the model of a run; its weights come from torch's global generator, so seed that first.

    Args:
        config: The run.
        vocab_size: Tokens of the tokenizer.
        token_ids: pad_token_id, bos_token_id and eos_token_id; by default those of ``data.tokenizer``, or of
            a trained one.
    """
    model, family = config.model, get_family(config.family)
    ids = token_ids or _token_ids(config)
    shared: dict[str, Any] = {
        "vocab_size": vocab_size,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "paired_intermediate_size": model.paired_intermediate_size,
        "num_hidden_layers": model.num_hidden_layers,
        "num_attention_heads": model.num_attention_heads,
        # The config's number is that for a pad id of 0, as no config depends on what is in a folder.
        "max_position_embeddings": model.max_position_embeddings
        + family.first_position(ids["pad_token_id"])
        - family.first_position(),
        **ids,
    }
    fields = family.config_fields
    of_family = {theirs: getattr(model, ours) for ours, names in fields.items() for theirs in names}
    options = dict(model.ffn_options) if model.ffn_options else None
    network = ffn_variants.build_model(config.family, model.ffn, options, **shared, **of_family)
    if model.ffn_initializer_factor != 1:
        is_block = ffn_variants.get_variant(model.ffn).kind == "block"
        for each in filter(lambda each: each.is_ffn and each.decays, learnable_weights(network)):
            # Neither an activation's own curves, nor the scaler of coefficients that have the factor already.
            if each.view or (is_block and not each.name.endswith("_scaler")):
                each.parameter.data.mul_(model.ffn_initializer_factor)
    return network


def _token_ids(config: ResolvedConfig) -> dict[str, int]:
    if config.data.tokenizer is None:
        return {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return special_token_ids(load_tokenizer(config.data.tokenizer, get_family(config.family).objective))


def special_token_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, int]:
    """The ids a model's config records."""
    return {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}


def build_masker(config: ResolvedConfig, tokenizer: PreTrainedTokenizerFast) -> Masker | SpanCorruptor | None:
    """The corruption of a masked model's or an encoder-decoder's input; None for a causal model."""
    kind = get_family(config.family).objective
    if kind == "causal":
        return None
    if kind == "span_corruption":
        ids = special_token_ids(tokenizer)
        return SpanCorruptor(
            add_sentinels(tokenizer),
            ids["bos_token_id"],
            ids["eos_token_id"],
            ids["pad_token_id"],
            config.train.mlm_probability,  # type: ignore[arg-type]
            float(config.train.mean_noise_span_length),  # type: ignore[arg-type]
        )
    special = np.unique(tokenizer.all_special_ids).tolist()
    return Masker(len(tokenizer), special, int(tokenizer.mask_token_id), config.train.mlm_probability)  # type: ignore[arg-type]
