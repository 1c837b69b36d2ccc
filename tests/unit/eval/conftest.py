"""What several folders of these tests read."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import (
    AutoTokenizer,
    GPTNeoConfig,
    GPTNeoForCausalLM,
    PreTrainedModel,
    RobertaConfig,
    RobertaForMaskedLM,
    T5Config,
    T5ForConditionalGeneration,
)

IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


@pytest.fixture(scope="module")
def tokenizer(shared_data):
    """That of the source study."""
    return AutoTokenizer.from_pretrained(shared_data / "tokenizer-10k")


@pytest.fixture(scope="session")
def stock_model() -> Callable[..., PreTrainedModel]:
    """Makes a model of transformers' own whose weights are large enough for attention to matter."""

    def make(objective: str, vocab_size: int = 10_000, num_positions: int = 64) -> PreTrainedModel:
        torch.manual_seed(0)
        sizes = {"vocab_size": vocab_size, "hidden_size": 16, "initializer_range": 0.3}
        sizes["intermediate_size"] = 32
        if objective == "causal":
            depth = {"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]}
            places = {"max_position_embeddings": num_positions, "window_size": num_positions // 2}
            return GPTNeoForCausalLM(GPTNeoConfig(**sizes, **depth, **places, **IDS)).eval()
        if objective == "masked":
            depth = {"num_hidden_layers": 2, "num_attention_heads": 2, "type_vocab_size": 1}
            places = {"max_position_embeddings": num_positions + 1}
            return RobertaForMaskedLM(RobertaConfig(**sizes, **depth, **places, **IDS)).eval()
        sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
        ids = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2, "initializer_factor": 3.0}
        config = T5Config.from_dict({"vocab_size": vocab_size, **sizes, **ids})
        config.max_position_embeddings = num_positions
        return T5ForConditionalGeneration(config).eval()

    return make


@pytest.fixture(scope="session")
def whole_passes() -> Callable[..., float]:
    """(Pseudo-)log-likelihood of some tokens of a text, by transformers' forward pass over all of it."""

    @torch.no_grad()
    def score(
        model: PreTrainedModel, token_ids: Sequence[int], places: Sequence[int], mask: int | None = None
    ):
        ids, at = torch.tensor(token_ids), torch.tensor(places)
        if mask is None:
            logits = model(ids[None, :-1]).logits[0, at - 1]
        else:
            rows = torch.arange(len(at))
            copies = ids.repeat(len(at), 1)
            copies[rows, at] = mask
            logits = model(copies, attention_mask=torch.ones_like(copies)).logits[rows, at]
        return -cross_entropy(logits.double(), ids[at], reduction="sum").item()

    return score
