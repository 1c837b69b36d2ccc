"""Packing: nothing lost, nearly nothing empty, and packed documents that do not see each other."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from base.text.corruption import IGNORE, SpanCorruptor
from ffn_variants import build_model
from pretrain.data.packing import TARGET_FILL, best_fit, cut_pieces, fill_rows, pack
from pretrain.data.step_batches import next_tokens, to_batch
from pretrain.model.objective import build_loss
from tests.references import packed_documents


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 16))
def test_every_token_is_kept_once_in_pieces_of_one_document(lengths, block_size):
    total = sum(lengths)
    tokens = np.arange(1, total + 1, dtype=np.uint16)
    input_ids, position_ids = pack(tokens, np.array(lengths), block_size, pad_token_id=0)
    pieces = sorted(packed_documents(input_ids, position_ids, pad=0))
    assert [token for piece in pieces for token in piece] == list(range(1, total + 1))
    document = np.repeat(np.arange(len(lengths)), lengths)
    owners = [{document[token - 1] for token in piece} for piece in pieces]
    assert all(len(owner) == 1 for owner in owners)
    assert len(input_ids) <= max(math.ceil(total / block_size), total / (TARGET_FILL * block_size))


@given(st.lists(st.integers(1, 32), min_size=1, max_size=80))
def test_best_fit_overfills_nothing_and_keeps_its_guarantee(lengths):
    rows, filled = best_fit(np.array(lengths), 32)
    assert filled.tolist() == np.bincount(rows, weights=lengths).tolist()
    assert filled.max() <= 32
    # Best-fit decreasing needs at most 11/9 of the optimum plus 6/9 (Johnson 1973; Dosa 2007).
    bound = 11 / 9 * np.ceil(sum(lengths) / 32) + 6 / 9
    assert len(filled) <= max(bound, sum(n > 16 for n in lengths) + 6)


def test_best_fit_takes_the_fullest_row_with_room():
    rows, filled = best_fit(np.array([6, 5, 4, 3, 2]), 10)
    assert rows.tolist() == [0, 1, 0, 1, 1]
    assert filled.tolist() == [10, 10]


def test_pieces_of_long_documents():
    assert cut_pieces(np.array([3, 10, 4]), 4).tolist() == [[0, 3], [3, 4], [7, 4], [11, 2], [13, 4]]


def test_the_emptiest_row_is_cut_to_fill_the_others():
    planned = fill_rows(np.array([8, 8, 6, 8, 8]), 10)
    assert sorted(planned[:, 1].tolist()) == [2, 2, 2, 8, 8, 8, 8]
    assert planned[-1, 2] == 3  # four rows; whole documents need five


def test_a_document_is_cut_only_where_that_saves_a_row():
    assert fill_rows(np.array([6, 6]), 10).tolist() == [[0, 6, 0], [6, 6, 1]]


def test_targets_never_cross_a_document():
    input_ids, position_ids = pack(np.arange(1, 13, dtype=np.uint16), np.array([5, 3, 4]), 10, 0)
    targets = next_tokens(input_ids.astype(np.int64), position_ids)
    assert targets[0].tolist() == [2, 3, 4, 5, IGNORE, 10, 11, 12, IGNORE, IGNORE]
    assert targets[1].tolist() == [7, 8, *[IGNORE] * 8]


def test_the_packed_loss_of_t5_is_the_stock_loss_of_each_document_alone():
    """Corrupted documents, packed, against transformers' forward pass with labels, one after the other."""
    torch.manual_seed(0)
    model = build_model("t5", "kan", num_hidden_layers=2, max_position_embeddings=40, **SIZES).eval()
    rng = np.random.default_rng(1)
    lengths = np.array([17, 1, 12, 9, 23, 3, 30])
    tokens = rng.integers(4, 50, lengths.sum()).astype(np.uint16)
    corruptor = SpanCorruptor(range(50, 60), 1, 2, 0, noise_density=0.3)
    examples = corruptor(*pack(tokens, lengths, 40, 0), np.random.default_rng(2))
    batch = to_batch(examples, slice(None))
    loss = build_loss(model, "t5")
    with torch.no_grad():
        packed, total, seen = loss(**batch), 0.0, 0
        for row, numbers in enumerate(batch["document_ids"]):
            for number in sorted(set(numbers.tolist()) - {0}):
                written = batch["decoder_document_ids"][row] == number
                if not written.any():  # the document of one token
                    continue
                labels = torch.from_numpy(examples["targets"])[row, written][None]
                alone = model(input_ids=batch["input_ids"][row, numbers == number][None], labels=labels)
                total += alone.loss.double().item() * labels.shape[1]
                seen += 1
    assert seen == 6
    assert len(batch["target_ids"]) > 40
    assert packed.item() == pytest.approx(total, rel=1e-5)


def test_padding_of_t5_gives_no_gradient_that_is_not_a_number():
    """A row whose encoder is full and whose decoder is not: what pads the decoder sees nothing at all."""
    torch.manual_seed(0)
    model = build_model("t5", "gelu", num_hidden_layers=1, max_position_embeddings=40, **SIZES)
    ids = torch.randint(4, 60, (2, 16))
    full, half = torch.ones_like(ids), torch.tensor([[1] * 6 + [0] * 10, [1] * 16])
    index = torch.tensor([0, 5, 20])
    batch = {"input_ids": ids, "document_ids": full, "decoder_input_ids": ids, "decoder_document_ids": half}
    batch |= {"target_index": index, "target_ids": ids.flatten()[index]}
    for dtype in (torch.float32, torch.bfloat16):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            loss = build_loss(model, "t5")(**batch)
        loss.backward()
        assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
        assert model.get_parameter("decoder.block.0.layer.1.EncDecAttention.k.weight").grad.abs().max() > 0


SIZES = {"hidden_size": 32, "intermediate_size": 24, "num_attention_heads": 4, "vocab_size": 60}
