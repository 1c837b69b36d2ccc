"""How the rows of a step are shared."""

from __future__ import annotations

import pytest

from base.errors import UsageError
from pretrain.config import RunConfig, TrainConfig
from pretrain.data.prepare import prepare_data
from pretrain.data.step_batches import BatchSource, cut_step
from pretrain.resolution import load_config


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


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> RunConfig:
    data = {"num_stories": 100, "vocab_size": 300, "block_size": 64}
    output = {"runs_dir": str(tmp_path_factory.mktemp("runs"))}
    return load_config(None, [], {"data": data, "output": output, "train": {"batch_size": 12}})


@pytest.mark.parametrize(("size", "processes"), [(5, 1), (4, 2), (1, 3), (16, 12)])
def test_every_cut_of_a_step_has_its_rows_in_order(config, size, processes):
    data = prepare_data(config)
    train = config.train.model_copy(update={"per_device_train_batch_size": size})
    cut = config.model_copy(update={"train": train})
    (whole,) = BatchSource(config, None, 0).step(data.train, 5).batches
    shares = [
        BatchSource(cut, None, 0, process, processes).step(data.train, 5) for process in range(processes)
    ]
    sizes = [[len(batch["input_ids"]) for batch in share.batches] for share in shares]
    assert len({tuple(each) for each in sizes}) == 1
    assert max(sizes[0]) <= size
    rows = [row.tolist() for share in shares for batch in share.batches for row in batch["input_ids"]]
    assert rows == whole["input_ids"].tolist()
