"""The model of a run, built from its configuration."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from ffn_variants import build_model, objective
from pretrain.config import RunConfig, resolve
from pretrain.masking import Masker


def build(config: RunConfig, vocab_size: int, token_ids: dict[str, int] | None = None) -> PreTrainedModel:
    """Build the model of a run; its weights come from torch's global generator, so seed that first.

    Args:
        config: The run.
        vocab_size: Tokens of the tokenizer.
        token_ids: pad_token_id, bos_token_id and eos_token_id; by default 0, 1 and 2.
    """
    model = resolve(config).model
    shared: dict[str, Any] = {
        "vocab_size": vocab_size,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.intermediate_size,
        "paired_intermediate_size": model.paired_intermediate_size,
        "num_hidden_layers": model.num_hidden_layers,
        "num_attention_heads": model.num_attention_heads,
        "max_position_embeddings": model.max_position_embeddings,
        "initializer_range": model.initializer_range,
        **(token_ids or {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}),
    }
    own = _gpt_neo(config) if config.family == "gpt_neo" else _roberta(config)
    options = dict(model.ffn_options) if model.ffn_options else None
    return build_model(config.family, model.ffn, options, **shared, **own)


def special_token_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, int]:
    """The ids a model's config records."""
    return {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")}


def build_masker(config: RunConfig, tokenizer: PreTrainedTokenizerFast) -> Masker | None:
    """The corruption of a masked model's input; None for a causal one."""
    if objective(config.family) == "causal":
        return None
    special = np.unique(tokenizer.all_special_ids).tolist()
    return Masker(len(tokenizer), special, int(tokenizer.mask_token_id), config.train.mlm_probability)  # type: ignore[arg-type]


def _gpt_neo(config: RunConfig) -> dict[str, Any]:
    model = resolve(config).model
    return {
        "window_size": model.window_size,
        "embed_dropout": model.hidden_dropout,
        "resid_dropout": model.hidden_dropout,
        "attention_dropout": model.attention_dropout,
    }


def _roberta(config: RunConfig) -> dict[str, Any]:
    model = resolve(config).model
    return {
        "hidden_dropout_prob": model.hidden_dropout,
        "attention_probs_dropout_prob": model.attention_dropout,
    }
