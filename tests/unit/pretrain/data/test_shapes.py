"""Batches of fixed shapes: the same shapes at every step, and the same losses and gradients as without."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from base.text.corruption import IGNORE, find_documents
from pretrain.config import RunConfig
from pretrain.data import shapes
from pretrain.data.packing import pack
from pretrain.data.prepare import prepare_data
from pretrain.data.shapes import Spread
from pretrain.data.step_batches import BatchSource
from pretrain.model.build import build, build_masker
from pretrain.model.objective import build_loss
from pretrain.resolution import load_config

FAMILIES = ["gpt_neo", "roberta", "t5"]


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("runs"))


def config_of(family: str, runs_dir: str, **train) -> RunConfig:
    values = {
        "family": family,
        "model": {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "hidden_dropout": 0},
        "data": {"num_stories": 150, "vocab_size": 300, "block_size": 64},
        "output": {"runs_dir": runs_dir},
        "train": {"batch_size": 10, "per_device_train_batch_size": 4, **train},
    }
    if family != "t5":
        values["model"]["attention_dropout"] = 0
    return load_config(None, [], values)


def sources(family: str, runs_dir: str, **train):
    """The data, and what cuts it without and with fixed shapes."""
    config = config_of(family, runs_dir, **train)
    data = prepare_data(config)
    masker = build_masker(config, data.tokenizer)
    pad = int(data.tokenizer.pad_token_id)
    free, fixed = (BatchSource(config, masker, pad, fixed_shapes=fixed) for fixed in (False, True))
    return config, data, free, fixed


def shapes_of(batch) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in batch.items()}


@pytest.mark.parametrize("family", FAMILIES)
def test_all_steps_have_the_same_shapes_and_the_same_targets_in_order(family, runs_dir):
    _, data, free, fixed = sources(family, runs_dir)
    found = set()
    for number in range(40):
        step, expected = fixed.step(data.train, number), free.step(data.train, number)
        assert (step.num_targets, step.num_tokens) == (expected.num_targets, expected.num_tokens)
        found.add(str([shapes_of(batch) for batch in step.batches]))
        for batch, other in zip(step.batches, expected.batches, strict=True):
            real = len(other["target_ids"])
            assert (batch["target_ids"][real:] == IGNORE).all()
            assert torch.equal(batch["target_ids"][:real], other["target_ids"])
            assert len(batch["target_index"].unique()) == len(batch["target_index"])
            for name in other.keys() - {"target_ids", "target_index"}:
                assert torch.equal(batch[name][:, : other[name].shape[1]], other[name])
            if "position_ids" in batch:
                assert torch.equal(batch["target_index"][:real], other["target_index"])
    assert len(found) == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_padded_targets_give_the_same_loss_and_gradients(family, runs_dir):
    config, data, free, fixed = sources(family, runs_dir)
    torch.manual_seed(0)
    loss = build_loss(build(config, len(data.tokenizer)).double(), family).train()
    results = []
    for source in (free, fixed):
        (batch, *_) = source.step(data.train, 3).batches
        loss.zero_grad()
        total = loss(**batch)
        total.backward()
        results.append((total.item(), [p.grad.clone() for p in loss.parameters() if p.grad is not None]))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-12)
    for a, b in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(a, b, atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_evaluation_has_each_target_once(family, runs_dir):
    _, data, free, fixed = sources(family, runs_dir)
    listed = [
        [token for batch in source.held_out(data.validation) for token in batch["target_ids"].tolist()]
        for source in (free, fixed)
    ]
    assert [token for token in listed[1] if token != IGNORE] == listed[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_knots_are_placed_by_the_same_tokens(family, runs_dir):
    _, data, free, fixed = sources(family, runs_dir)
    pairs = zip(fixed.typical(data.train, 1, 128), free.typical(data.train, 1, 128), strict=True)
    for batch, other in pairs:
        for name in other.keys() - {"target_ids", "target_index"}:
            assert torch.equal(batch[name], other[name]), name


@pytest.mark.parametrize("family", FAMILIES)
def test_what_does_not_fit_gets_the_next_multiple(family, runs_dir, monkeypatch):
    _, data, free, fixed = sources(family, runs_dir, per_device_train_batch_size=10)
    monkeypatch.setattr(Spread, "room", lambda spread, count: 0)
    (batch,), (other,) = fixed.step(data.train, 1).batches, free.step(data.train, 1).batches
    real = len(other["target_ids"])
    assert (batch["target_ids"] != IGNORE).sum() == real
    assert len(batch["target_ids"]) == -(-real // shapes.MULTIPLE) * shapes.MULTIPLE
    if "document_starts" in batch:
        assert len(batch["document_starts"]) % shapes.MULTIPLE == 1


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(8, 40), st.integers(0, 100))
def test_documents_begin_where_a_walk_over_the_rows_finds_them(lengths, block_size, seed):
    tokens = np.random.default_rng(seed).integers(1, 9, sum(lengths)).astype(np.uint16)
    ids, positions, _ = pack(tokens, np.array(lengths), block_size, 0)
    expected, padding = [], []
    for row, column in itertools.product(range(len(ids)), range(block_size)):
        is_padding = ids[row, column] == 0
        if positions[row, column] == 0 and not (is_padding and column and ids[row, column - 1] == 0):
            expected.append(row * block_size + column)
            padding.append(is_padding)
    starts, sizes, is_padding = find_documents(ids, positions, 0)
    assert starts.tolist() == expected
    assert is_padding.tolist() == padding
    assert (starts + sizes).tolist() == [*expected[1:], ids.size]


@pytest.mark.parametrize("family", ["gpt_neo", "roberta"])
def test_document_starts_say_what_positions_say(family, runs_dir):
    _, data, _, fixed = sources(family, runs_dir)
    for number in range(5):
        for batch in fixed.step(data.train, number).batches:
            starts, size = batch["document_starts"], batch["input_ids"].numel()
            assert starts.dtype == torch.int32
            assert starts[0] == 0
            assert starts[-1] == size
            counted = np.concatenate([np.arange(length) for length in starts.diff().tolist()])
            is_padding = (batch["input_ids"] == fixed.pad_token_id).flatten().numpy()
            counted[is_padding] = 0  # every token of padding is at position 0
            assert counted.tolist() == batch["position_ids"].flatten().tolist()


@pytest.mark.parametrize("count", [1, 4, 112])
def test_room_is_enough_for_random_rows_and_not_much_more(count):
    rng = np.random.default_rng(count)
    counts = rng.poisson(3, 5000) + 1
    spread = Spread.of(counts)
    sums = rng.choice(counts, (4000, count)).sum(1)
    room = spread.room(count)
    assert sums.max() <= room <= -(-count * counts.max() // 64) * 64
    if count == 112:
        assert room < 1.6 * sums.mean()


def test_the_room_of_masked_tokens_is_that_of_their_binomial():
    from scipy.stats import binom

    room = Spread(0.15, 0.15 * 0.85, 1.0).room(112 * 512)
    assert binom.sf(room, 112 * 512, 0.15) < shapes.CHANCE
    assert room < 1.1 * 112 * 512 * 0.15
