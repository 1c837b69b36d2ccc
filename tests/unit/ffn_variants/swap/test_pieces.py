"""Texts cut into pieces, and the batches of each objective."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from base.errors import UsageError
from base.families import FAMILIES
from ffn_variants.swap.objective import held_out_loss
from ffn_variants.swap.pieces import Batcher, cut

PIECES = [np.arange(10, 22), np.arange(30, 39), np.arange(60, 90)]


def test_documents_are_cut_and_every_tenth_is_held_out(tokenizer):
    documents = [f"The cat number {n} sat on a mat. " * 5 for n in range(30)]
    pieces = cut(documents, tokenizer, 32, 10**6, 10**6)
    whole = [tokenizer(document)["input_ids"] for document in documents]
    for found, numbers in (
        (pieces.held_out, [9, 19, 29]),
        (pieces.train, [n for n in range(30) if n % 10 != 9]),
    ):
        expected = [whole[n][i : i + 32] for n in numbers for i in range(0, len(whole[n]), 32)]
        assert [piece.tolist() for piece in found] == [piece for piece in expected if len(piece) >= 8]
    few = cut(iter(documents), tokenizer, 32, 100, 10)
    assert 100 <= sum(map(len, few.train)) < 132
    assert len(few.held_out) == 1


def test_a_causal_batch_predicts_every_token(tokenizer):
    (batch,) = Batcher("causal", tokenizer).batches(PIECES, 3)
    for row, piece in enumerate(PIECES):
        assert batch["input_ids"][row, : len(piece)].tolist() == piece.tolist()
        assert batch["labels"][row].tolist() == piece.tolist() + [-100] * (30 - len(piece))
        assert batch["attention_mask"][row].tolist() == [1] * len(piece) + [0] * (30 - len(piece))


def test_a_masked_batch_hides_about_15_percent_the_same_each_time(tokenizer):
    pieces = [np.random.default_rng(n).integers(5, 250, 64) for n in range(200)]
    batcher = Batcher("masked", tokenizer)
    first, second = (list(batcher.batches(pieces, 50)) for _ in range(2))
    assert all(torch.equal(a["input_ids"], b["input_ids"]) for a, b in zip(first, second, strict=True))
    labels = torch.cat([batch["labels"] for batch in first])
    ids = torch.cat([batch["input_ids"] for batch in first])
    predicted = labels != -100
    assert 0.13 < predicted.float().mean() < 0.17
    assert torch.equal(labels[predicted], torch.from_numpy(np.stack(pieces))[predicted])
    assert (ids[predicted] == tokenizer.mask_token_id).float().mean() > 0.7


def test_spans_put_together_are_the_text(tokenizer):
    batcher = Batcher("span_corruption", tokenizer)
    (batch,) = batcher.batches(PIECES, 3)
    sentinels = {tokenizer.convert_tokens_to_ids(f"<extra_id_{n}>") for n in range(100)}
    for row, piece in enumerate(PIECES):
        read = batch["input_ids"][row][batch["attention_mask"][row] == 1].tolist()
        written = [n for n in batch["labels"][row].tolist() if n != -100]
        spans: dict[int, list[int]] = {}
        for token in written:
            if token in sentinels:
                spans[token] = []
            else:
                spans[list(spans)[-1]].append(token)
        text = [part for token in read for part in (spans[token] if token in sentinels else [token])]
        assert text == piece.tolist()


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_held_out_loss_is_the_mean_over_predicted_tokens(family, ours, tokenizer):
    """Token by token from the logits, whatever the batches."""
    model, objective = ours(family), FAMILIES[family].objective
    batches = list(Batcher(objective, tokenizer).batches(PIECES * 5, 4))
    total, count = 0.0, 0
    for batch in batches:
        with torch.no_grad():
            log = model(**{k: v for k, v in batch.items() if k != "labels"}).logits.log_softmax(-1)
        labels = batch["labels"]
        if objective == "causal":
            log, labels = log[:, :-1], labels[:, 1:]
        for row, column in (labels != -100).nonzero().tolist():
            total -= float(log[row, column, labels[row, column]])
            count += 1
    assert held_out_loss(model, batches, objective == "causal") == pytest.approx(total / count, rel=1e-5)


def test_a_tokenizer_without_what_the_objective_needs_is_refused(tokenizer):
    class Bare:
        pad_token_id, mask_token_id, bos_token_id, eos_token_id = 0, None, 1, 2

        def get_vocab(self):
            return {}

    with pytest.raises(UsageError, match="no mask token"):
        Batcher("masked", Bare())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="lacks <extra_id_0>"):
        Batcher("span_corruption", Bare())  # type: ignore[arg-type]
