"""Cutting a step that does not fit; that it happens for real is tested in test_interruptions.py."""

from __future__ import annotations

import pytest
import torch

from base.errors import UsageError
from pretrain.config import RunConfig
from pretrain.resolution import load_config
from pretrain.training.memory import fit_to_memory


def run_that_fits(rows: int, tried: list[int]):
    """A run whose forward passes hold so many rows, with the error that CUDA raises beyond."""

    def run(config: RunConfig) -> None:
        train = config.train
        tried.append(train.per_device_train_batch_size)
        if train.per_device_train_batch_size > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    return run


def config(rows: int, size: int) -> RunConfig:
    sizes = {"batch_size": rows, "per_device_train_batch_size": size}
    return load_config(None, overrides={"train": sizes})


@pytest.mark.parametrize(
    ("rows", "size", "fits", "expected"),
    [
        (32, 16, 16, [16]),
        (32, 16, 5, [16, 8, 4]),
        (12, 12, 1, [12, 6, 3, 1]),
        (4, 16, 2, [4, 2]),  # a pass has no more rows than the step
    ],
)
def test_forward_passes_are_halved_until_they_fit(rows, size, fits, expected):
    tried: list[int] = []
    fit_to_memory(run_that_fits(fits, tried), config(rows, size), 1)
    assert tried == expected


def test_a_continued_run_begins_with_what_was_found():
    tried: list[int] = []
    fit_to_memory(run_that_fits(4, tried), config(16, 16), 1, first_size=4)
    assert tried == [4]


def test_one_row_that_does_not_fit_is_told():
    with pytest.raises(UsageError, match="memory runs out with one row per forward pass; shorten"):
        fit_to_memory(run_that_fits(0, []), config(4, 4), 1)


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    def run(config: RunConfig) -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        fit_to_memory(run, config(4, 4), 1)


def test_several_processes_are_refused():
    with pytest.raises(UsageError, match="works with one process, and this run has 2"):
        fit_to_memory(run_that_fits(4, []), config(4, 4), 2)


def test_memory_that_runs_out_outside_torch_counts_too():
    def run(config: RunConfig) -> None:
        tried.append(config.train.per_device_train_batch_size)
        if tried[-1] > 4:
            raise MemoryError

    tried: list[int] = []
    fit_to_memory(run, config(8, 8), 1)
    assert tried == [8, 4]
