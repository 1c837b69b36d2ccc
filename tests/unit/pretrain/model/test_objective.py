"""Packed losses and gradients are those of transformers' own forward pass on each document."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, processors
from torch.nn import functional as F
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

from eval.scoring.log_likelihood import num_positions
from ffn_variants import build_model
from pretrain.data.packing import pack
from pretrain.model import linear_cross_entropy as chunks
from pretrain.model.build import build
from pretrain.model.objective import PackedLoss, build_loss
from pretrain.resolution import load_config

# Packed rows, chunks of the loss and attention backends change neither the loss nor any gradient.
SIZES = {"hidden_size": 32, "intermediate_size": 24, "num_attention_heads": 4, "vocab_size": 60}
LENGTHS = np.array([17, 1, 12, 9, 23, 3, 30])
ROW, MASK = 40, 3


def build_to_train(family, ffn):
    """A model in training mode, whose loss is that of a step, without dropout."""
    own = {
        "gpt_neo": {"window_size": 5},  # shorter than the documents
        "roberta": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        "llama": {},
    }[family]
    torch.manual_seed(0)
    return build_model(
        family, ffn, num_hidden_layers=2, max_position_embeddings=41, initializer_range=0.2, **SIZES, **own
    ).train()


def tokens_and_chosen(family):
    """Tokens of all documents, and which of them are predicted."""
    rng = np.random.default_rng(1)
    tokens = rng.integers(4, 60, LENGTHS.sum()).astype(np.uint16)
    starts = np.cumsum(LENGTHS) - LENGTHS
    chosen = np.ones(len(tokens), bool)
    chosen[starts] = False  # nothing comes before the first token of a document
    return tokens, chosen if family != "roberta" else rng.random(len(tokens)) < 0.3


def padded_loss(model, family):
    """Summed by transformers over right-padded documents, and the number of targets."""
    tokens, chosen = tokens_and_chosen(family)
    ids = torch.zeros(len(LENGTHS), LENGTHS.max(), dtype=torch.long)
    labels = torch.full_like(ids, -100)
    ends = np.cumsum(LENGTHS)
    for row, (start, end) in enumerate(zip(ends - LENGTHS, ends, strict=True)):
        document, predicted = tokens[start:end].astype(int), chosen[start:end]
        visible = document if family != "roberta" else np.where(predicted, MASK, document)
        ids[row, : end - start] = torch.from_numpy(visible)
        labels[row, : end - start] = torch.from_numpy(np.where(predicted, document, -100))
    loss = model(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss
    return loss * chosen.sum()


def packed_loss(model, family):
    """Summed by this project over packed rows."""
    tokens, chosen = tokens_and_chosen(family)
    rows, positions, num_cut = pack(tokens, LENGTHS, ROW, 0)
    assert num_cut == 0
    assert len(rows) < len(LENGTHS)
    predicted = pack(np.where(chosen, 2, 1).astype(np.uint16), LENGTHS, ROW, 0)[0] == 2
    targets = torch.from_numpy(rows[predicted].astype(np.int64))
    index = torch.from_numpy(np.flatnonzero(predicted))
    if family != "roberta":
        index = index - 1  # a token is predicted where the one before it stands
    else:
        rows = np.where(predicted, MASK, rows)
    ids, positions = (torch.from_numpy(array.astype(np.int64)) for array in (rows, positions))
    batch = {"input_ids": ids, "position_ids": positions, "target_index": index, "target_ids": targets}
    return PackedLoss(model, family)(**batch)


@pytest.mark.parametrize(("ffn", "rows_per_chunk"), [("gelu", None), ("kan", 7)], ids=["whole", "chunked"])
@pytest.mark.parametrize("family", ["gpt_neo", "roberta", "llama"])
def test_loss_and_gradients_of_packed_rows_are_those_of_padded_documents(
    monkeypatch, family, ffn, rows_per_chunk
):
    """The loss within 1e-6 of itself, each gradient within 1e-6 of the norm of all."""
    reference = build_to_train(family, ffn)
    model = copy.deepcopy(reference)
    reference.set_attn_implementation("eager")
    if rows_per_chunk:
        monkeypatch.setitem(chunks.CHUNK_NUMBERS, "cpu", rows_per_chunk * SIZES["vocab_size"])
    wanted, found = padded_loss(reference, family), packed_loss(model, family)
    assert found.item() == pytest.approx(wanted.item(), rel=1e-6)
    wanted.backward()
    found.backward()
    gradients = {name: parameter.grad for name, parameter in reference.named_parameters()}
    norm = torch.nn.utils.get_total_norm(gradients.values())
    assert norm > 10
    for name, parameter in model.named_parameters():
        assert (parameter.grad - gradients[name]).norm() <= 1e-6 * norm, name


# RoBERTa's positions begin behind the id of its padding: one rule in training, saving and reading.
BLOCK, VOCABULARY = 12, 40
ROBERTA = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
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
            **ROBERTA, **ids_of(pad), vocab_size=VOCABULARY, max_position_embeddings=BLOCK + pad + 1,
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
