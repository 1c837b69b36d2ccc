"""A small model of each family, ours or stock, with a tokenizer, and texts to fit to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import (
    GPTNeoConfig,
    GPTNeoForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
    RobertaConfig,
    RobertaForMaskedLM,
    T5Config,
    T5ForConditionalGeneration,
)

from ffn_variants import build_model
from pretrain.data.embedded.stories import stories
from pretrain.data.tokenizer import add_sentinels, train_tokenizer

SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
STORIES = stories(400, 0)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    tokenizer = train_tokenizer(iter(STORIES), 300)
    add_sentinels(tokenizer)
    return tokenizer


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": story}) + "\n" for story in STORIES))
    return path


@pytest.fixture
def ours(tokenizer):
    """Make a model of ours; small weights are made large, so that its FFNs matter."""

    def _ours(family: str, ffn: str = "gelu", **config):
        torch.manual_seed(0)
        model = build_model(
            family, ffn, vocab_size=len(tokenizer), max_position_embeddings=65, **SIZES, **config
        )
        return _widened(model)

    return _ours


@pytest.fixture
def stock(tokenizer):
    """Make a model of transformers itself."""

    def _stock(family: str, **config):
        torch.manual_seed(0)
        shared = {"vocab_size": len(tokenizer), "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
        if family == "gpt_neo":
            own = {"hidden_size": 16, "intermediate_size": 24, "num_layers": 2, "num_heads": 2}
            types = {"attention_types": [[["global", "local"], 1]], "window_size": 8}
            model = GPTNeoForCausalLM(
                GPTNeoConfig(max_position_embeddings=64, **shared, **own, **types, **config)
            )
        elif family == "roberta":
            model = RobertaForMaskedLM(RobertaConfig(max_position_embeddings=65, **shared, **SIZES, **config))
        elif family == "llama":
            # Fewer heads of keys than of queries, as larger ones have.
            config = {"num_key_value_heads": 1, "max_position_embeddings": 65, **shared, **SIZES, **config}
            model = LlamaForCausalLM(LlamaConfig(**config))
        else:
            own = {"d_model": 16, "d_ff": 24, "num_layers": 1, "num_heads": 2, "d_kv": 8}
            model = T5ForConditionalGeneration(T5Config(**shared, **own, decoder_start_token_id=0, **config))
        return _widened(model)

    return _stock


def _widened(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "shared" not in name:
                parameter.mul_(4)
    return model.eval()


@pytest.fixture
def saved(tmp_path, tokenizer):
    """Save a model with the tokenizer; returns the folder."""

    def _saved(model, name: str = "model") -> Path:
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        return tmp_path / name

    return _saved
