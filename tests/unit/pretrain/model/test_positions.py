"""RoBERTa's positions begin behind the id of its padding: one rule in training, saving and reading."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, processors
from torch.nn import functional as F
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

from eval.scoring.log_likelihood import num_positions
from pretrain.data.packing import pack
from pretrain.model.build import build
from pretrain.model.objective import build_loss
from pretrain.resolution import load_config

BLOCK, VOCABULARY = 12, 40
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
FLAGS = [
    *("--data.block-size", f"{BLOCK}", "--model.hidden-size", "16", "--model.intermediate-size", "32"),
    *("--model.num-attention-heads", "2", "--model.hidden-dropout", "0", "--model.attention-dropout", "0"),
]


def ids_of(pad: int) -> dict[str, int]:
    return {"pad_token_id": pad, "bos_token_id": pad + 1, "eos_token_id": pad + 2}


@pytest.mark.parametrize("pad", [0, 1, 5])
def test_a_packed_loss_is_that_of_stock_roberta_on_each_document(pad, error):
    """The stock model is given ids and a mask alone, and finds positions by transformers' own rule."""
    config = load_config(None, ["--family", "roberta", *FLAGS])
    assert (
        config.model.max_position_embeddings == BLOCK + 1
    )  # no config knows what is in a tokenizer's folder
    torch.manual_seed(0)
    model = build(config, VOCABULARY, ids_of(pad)).eval()
    stock = RobertaForMaskedLM(
        RobertaConfig(
            **SIZES, **ids_of(pad), vocab_size=VOCABULARY, max_position_embeddings=BLOCK + pad + 1,
            layer_norm_eps=model.config.layer_norm_eps,
        )
    ).eval()  # fmt: skip
    stock.load_state_dict(model.state_dict())

    rng = np.random.default_rng(0)
    documents = [rng.integers(pad + 3, VOCABULARY, size) for size in (BLOCK, 7, 4)]
    lengths = np.array([len(document) for document in documents])
    input_ids, positions, _ = pack(np.concatenate(documents), lengths, BLOCK, pad)
    ids, position_ids = torch.from_numpy(input_ids), torch.from_numpy(positions).long()
    places = torch.nonzero(ids.flatten() != pad).flatten()
    targets = torch.from_numpy(rng.integers(0, VOCABULARY, len(places)))
    with torch.no_grad():
        logits = torch.cat([stock(torch.from_numpy(document)[None]).logits[0] for document in documents])
        order = torch.cat([find(ids.flatten(), torch.from_numpy(document)) for document in documents])
        wanted = F.cross_entropy(logits, targets[torch.searchsorted(places, order)], reduction="sum")
        loss = build_loss(model, "roberta")(
            input_ids=ids.long(), position_ids=position_ids, target_index=places, target_ids=targets
        )
    assert error(loss, wanted) < 1e-6
    assert num_positions(model) == num_positions(stock) == BLOCK


def find(row: torch.Tensor, document: torch.Tensor) -> torch.Tensor:
    """Places of a document in the rows."""
    start = next(at for at in range(len(row)) if torch.equal(row[at : at + len(document)], document))
    return torch.arange(start, start + len(document))


def test_a_dry_run_builds_what_a_training_builds(tmp_path):
    """Neither knows the ids of a tokenizer in a folder but by loading it."""
    specials = {"<s>": 0, "<pad>": 1, "</s>": 2, "<mask>": 3}
    backend = Tokenizer(models.WordLevel({**specials, "a": 4, "b": 5}, "<pad>"))
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"}
    PreTrainedTokenizerFast(tokenizer_object=backend, **names).save_pretrained(tmp_path)
    config = load_config(None, ["--family", "roberta", *FLAGS, "--data.tokenizer", str(tmp_path)])
    assert build(config, 6).config.max_position_embeddings == BLOCK + 2
