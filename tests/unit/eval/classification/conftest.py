"""What tests of classification share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ffn_variants import build_model
from pretrain.data.embedded import stories
from pretrain.data.tokenizer import train_tokenizer


@pytest.fixture
def model(tmp_path) -> Path:
    """The folder of a saved tiny GPT-Neo that was not trained, with a tokenizer."""
    tokenizer = train_tokenizer(iter(stories(200, 0)), 400)
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 16, "intermediate_size": 32}
    layers = {"num_layers": 1, "num_heads": 2, "max_position_embeddings": 33}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    folder = tmp_path / "tiny"
    build_model("gpt_neo", "gelu", **sizes, **layers, **ids).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
