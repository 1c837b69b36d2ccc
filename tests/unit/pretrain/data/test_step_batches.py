"""Batches of a step: how rows are shared, fixed shapes, memory, and making them one step ahead."""

import contextlib
import itertools
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from base.errors import UsageError
from base.text.corruption import IGNORE, find_documents
from pretrain.config import ResolvedConfig, TrainConfig
from pretrain.data import shapes
from pretrain.data.packing import pack
from pretrain.data.prepare import prepare_data
from pretrain.data.shapes import Spread
from pretrain.data.step_batches import BatchSource, cut_step, one_ahead, stage
from pretrain.model.build import build, build_masker
from pretrain.model.objective import build_loss
from pretrain.resolution import load_config
from pretrain.training.loop import Loop
from pretrain.training.training_run import train
from tests.cases import small_run

# Batches of fixed shapes: the same shapes at every step, and the same losses and gradients as without.
FAMILIES = ["gpt_neo", "roberta", "t5"]


def config_of(family: str, runs_dir: Path, **train) -> ResolvedConfig:
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "hidden_dropout": 0}
    model = sizes | ({} if family == "t5" else {"attention_dropout": 0})
    rows = {"batch_size": 10, "per_device_train_batch_size": 4}
    return load_config(None, ["--family", family], small_run(runs_dir, model=model, train=rows | train))


def sources(family: str, runs_dir: Path, **train):
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
    # An evaluation has each target once, and knots are placed by the same tokens.
    held_out = [[*source.held_out(data.validation)] for source in (free, fixed)]
    targets = [[token for batch in own for token in batch["target_ids"].tolist()] for own in held_out]
    assert [token for token in targets[1] if token != IGNORE] == targets[0]
    typical = (source.typical(data.train, 1, 128) for source in (fixed, free))
    for batch, other in zip(*typical, strict=True):
        for name in other.keys() - {"target_ids", "target_index"}:
            assert torch.equal(batch[name], other[name]), name


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
    ids, positions = pack(tokens, np.array(lengths), block_size, 0)
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


# How the rows of a step are shared.
@pytest.mark.parametrize(
    ("rows", "size", "processes", "expected"),
    [(112, 16, 1, (112, 16)), (112, 16, 4, (28, 16)), (112, 16, 16, (7, 7)), (8, 16, 2, (4, 4))],
)
def test_shares(rows, size, processes, expected):
    train = TrainConfig(batch_size=rows, per_device_train_batch_size=size)
    assert cut_step(train, processes) == expected == cut_step(train, processes, on_gpu=True)


@pytest.mark.parametrize(("processes", "on_gpu", "rows"), [(1, True, 112), (4, True, 28), (1, False, 16)])
def test_auto_is_all_rows_of_a_process_on_a_gpu(processes, on_gpu, rows):
    train = TrainConfig(batch_size=112)
    assert train.per_device_train_batch_size == "auto"
    assert cut_step(train, processes, on_gpu) == (112 // processes, rows)


def test_rows_that_processes_cannot_share_are_refused():
    with pytest.raises(UsageError, match=r"3 processes cannot share .* start 2, or give a multiple of 3"):
        cut_step(TrainConfig(batch_size=16), 3)
    with pytest.raises(UsageError, match=r"start 6, or give a multiple of 7"):
        cut_step(TrainConfig(batch_size=360), 7)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("size", "processes"), [(5, 1), (4, 2), (1, 3), (16, 12)])
def test_every_cut_of_a_step_has_its_rows_in_order(family, runs_dir, size, processes):
    config, data, source, _ = sources(family, runs_dir, batch_size=12, per_device_train_batch_size="auto")
    train = config.train.model_copy(update={"per_device_train_batch_size": size})
    cut, masker = config.model_copy(update={"train": train}), build_masker(config, data.tokenizer)
    whole = source.step(data.train, 5)
    shares = [
        BatchSource(cut, masker, 0, process, processes).step(data.train, 5) for process in range(processes)
    ]
    sizes = [[len(batch["input_ids"]) for batch in share.batches] for share in shares]
    assert len({tuple(each) for each in sizes}) == 1
    assert max(sizes[0]) <= size
    for name in {"input_ids", "decoder_input_ids"} & set(whole.batches[0]):
        rows = [row.tolist() for share in shares for batch in share.batches for row in batch[name]]
        assert rows == whole.batches[0][name].tolist()
    assert {share.num_targets for share in shares} == {whole.num_targets}
    targets = sum(len(batch["target_ids"]) for share in shares for batch in share.batches)
    assert targets == whole.num_targets


# A step's batches in one piece of memory, and back.
def batches() -> list[dict[str, torch.Tensor]]:
    return [
        {
            "input_ids": torch.arange(rows * 6).view(rows, 6) + 70_000,
            "target_index": torch.tensor([5, 2, 2**31 - 1]),
            "target_ids": torch.tensor([7, 9, IGNORE]),
            "document_starts": torch.tensor([0, 3, rows * 6], dtype=torch.int32),
        }
        for rows in (3, 2)
    ]


def test_views_are_the_batches():
    staged = stage(batches(), pin=False)
    assert staged.numbers.dtype == torch.int32
    assert staged.numbers.numel() == sum(t.numel() for batch in batches() for t in batch.values())
    for batch, expected in zip(staged.to(torch.device("cpu")), batches(), strict=True):
        assert list(batch) == list(expected)
        for name, tensor in expected.items():
            assert batch[name].dtype == tensor.dtype
            assert torch.equal(batch[name], tensor)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_memory_is_not_given_out_while_a_copy_is_under_way():
    torch.cuda._sleep(10**9)
    copies = [stage([{"input_ids": torch.full((2**16,), number)}]).to("cuda") for number in range(20)]
    for number, (batch,) in enumerate(copies):
        assert (batch["input_ids"] == number).all()


# Batches made one step ahead: their order, their errors, and a thread that ends with the loop.
def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("batches")]


def test_each_is_made_in_a_thread_while_the_one_before_is_in_use():
    made = [threading.Event() for _ in range(4)]
    names = set()

    def make(number):
        names.add(threading.current_thread().name)
        made[number].set()
        return number * number

    with contextlib.closing(one_ahead(make, range(4))) as ahead:
        for number, square in enumerate(ahead):
            assert square == number * number
            assert number == 3 or made[number + 1].wait(60)
            assert not any(event.is_set() for event in made[number + 2 :])  # no further than one
    assert len(names) == 1
    assert threading.current_thread().name not in names
    assert not threads()


def test_few_or_no_numbers():
    assert list(one_ahead(abs, [])) == []
    assert list(one_ahead(abs, [-3])) == [3]


def test_an_error_is_raised_where_its_result_is_due():
    def make(number):
        if number == 2:
            raise OSError("the corpus is gone")
        return number

    ahead = one_ahead(make, range(5))
    assert [next(ahead), next(ahead)] == [0, 1]
    with pytest.raises(OSError, match="the corpus is gone"):
        next(ahead)
    assert not threads()


def test_the_loop_gets_every_step_once_and_its_error(tiny, monkeypatch):
    asked, given = [], []

    def step(source, split, number, step=BatchSource.step):
        asked.append(number)
        if number == 4:
            raise OSError("Input/output error")
        return step(source, split, number)

    def update(loop, step):
        given.append(step.batches[0]["input_ids"])
        return torch.ones(2)

    monkeypatch.setattr(BatchSource, "step", step)
    monkeypatch.setattr(Loop, "_update", update)
    with pytest.raises(OSError, match="Input/output error"):
        train(tiny())
    assert asked == [0, 1, 2, 3, 4]
    assert len(given) == 4
    assert not threads()
