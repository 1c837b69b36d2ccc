"""Packed rows, chunks of the loss and attention backends change neither the loss nor any gradient.

The reference is transformers' own forward pass and loss: every document alone in a padded row, eager
attention, all logits at once. Runs that must be equal are in tests/integration/test_equal_runs.py.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from ffn_variants import build_model
from pretrain.data.packing import pack
from pretrain.model import linear_cross_entropy as chunks
from pretrain.model.objective import PackedLoss

SIZES = {"hidden_size": 32, "intermediate_size": 24, "num_attention_heads": 4, "vocab_size": 60}
LENGTHS = np.array([17, 1, 12, 9, 23, 3, 30])
ROW, MASK = 40, 3


def build(family, ffn):
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
    reference = build(family, ffn)
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
