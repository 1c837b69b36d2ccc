"""The model of a run, built from its configuration."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from base.families import get_family
from base.text.corruption import Masker, SpanCorruptor
from ffn_variants import build_model
from pretrain.config import RunConfig
from pretrain.data.tokenizer import add_sentinels, load_tokenizer
from pretrain.resolution import resolve


def build(config: RunConfig, vocab_size: int, token_ids: dict[str, int] | None = None) -> PreTrainedModel:
    """Build the model of a run; its weights come from torch's global generator, so seed that first.

    Args:
        config: The run.
        vocab_size: Tokens of the tokenizer.
        token_ids: pad_token_id, bos_token_id and eos_token_id; by default those of ``data.tokenizer``, or of
            a trained one.
    """
    model, family = resolve(config).model, get_family(config.family)
    ids = token_ids or _token_ids(config)
    rows: Any = model.max_position_embeddings
    shared: dict[str, Any] = {
        "vocab_size": vocab_size,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "paired_intermediate_size": model.paired_intermediate_size,
        "num_hidden_layers": model.num_hidden_layers,
        "num_attention_heads": model.num_attention_heads,
        # The config's number is that for a pad id of 0, as no config depends on what is in a folder.
        "max_position_embeddings": rows
        + family.first_position(ids["pad_token_id"])
        - family.first_position(),
        **ids,
    }
    fields = family.config_fields
    own = {theirs: getattr(model, name) for name, called in fields.items() for theirs in called}
    options = dict(model.ffn_options) if model.ffn_options else None
    return build_model(config.family, model.ffn, options, **shared, **own)


def _token_ids(config: RunConfig) -> dict[str, int]:
    if config.data.tokenizer is None:
        return {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return special_token_ids(load_tokenizer(config.data.tokenizer, get_family(config.family).objective))


def special_token_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, int]:
    """The ids a model's config records."""
    return {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}


def build_masker(config: RunConfig, tokenizer: PreTrainedTokenizerFast) -> Masker | SpanCorruptor | None:
    """The corruption of a masked model's or an encoder-decoder's input; None for a causal model."""
    kind = get_family(config.family).objective
    if kind == "causal":
        return None
    if kind == "span_corruption":
        train, ids = resolve(config).train, special_token_ids(tokenizer)
        spans = (train.mlm_probability, float(train.mean_noise_span_length))  # type: ignore[arg-type]
        return SpanCorruptor(
            add_sentinels(tokenizer), ids["bos_token_id"], ids["eos_token_id"], ids["pad_token_id"], *spans
        )
    special = np.unique(tokenizer.all_special_ids).tolist()
    return Masker(len(tokenizer), special, int(tokenizer.mask_token_id), config.train.mlm_probability)  # type: ignore[arg-type]
