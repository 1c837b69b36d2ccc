"""Cutting a step that does not fit; that it happens for real is tested in test_interruptions.py."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest
import torch

from base.errors import UsageError
from pretrain.config import RunConfig
from pretrain.resolution import load_config
from pretrain.training.device import fit_to_memory, is_out_of_memory


def run_that_fits(rows: int, tried: list[int]):
    """A run whose forward passes hold so many rows, with the error that CUDA raises beyond."""

    def run(config: RunConfig) -> None:
        train = config.train
        tried.append(train.per_device_train_batch_size)
        if train.per_device_train_batch_size > rows:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")

    return run


def config(rows: int, size: int | str, find: bool = True) -> RunConfig:
    sizes = {"batch_size": rows, "per_device_train_batch_size": size, "find_batch_size": find}
    return load_config(None, overrides={"train": sizes})


@pytest.fixture(autouse=True)
def _no_collection(request, monkeypatch):
    """Each attempt but the last collects garbage, which takes a while and matters to one test."""
    if "collecting" not in request.fixturenames:
        monkeypatch.setattr(gc, "collect", lambda *_: 0)


@pytest.fixture
def collecting() -> None:
    """Let a test collect garbage."""


@pytest.mark.parametrize(
    ("rows", "size", "earlier", "fits", "expected"),
    [
        (32, 16, None, 16, [16]),
        (12, 12, None, 1, [12, 6, 3, 1]),
        (4, 16, None, 2, [4, 2]),  # a pass has no more rows than the step
        (16, 16, 4, 4, [4]),  # a continued run begins with what was found
        (16, 2, 4, 16, [2]),  # and with fewer where they are asked for
    ],
)
def test_forward_passes_are_halved_until_they_fit(rows, size, earlier, fits, expected, capsys):
    tried: list[int] = []
    fit_to_memory(run_that_fits(fits, tried), config(rows, size), 1, earlier_rows=earlier)
    assert tried == expected
    assert capsys.readouterr().out.splitlines() == [
        f"out of memory with {one} rows per forward pass; trying {other}"
        for one, other in itertools.pairwise(expected)
    ]


@pytest.mark.parametrize(
    ("on_gpu", "earlier", "expected"), [(True, None, [112, 56, 28]), (True, 28, [28]), (False, None, [16])]
)
def test_auto_begins_with_all_rows_on_a_gpu_and_needs_no_other_flag(on_gpu, earlier, expected):
    tried: list[int] = []
    asked = config(112, "auto", find=False)
    fit_to_memory(run_that_fits(30, tried), asked, on_gpu=on_gpu, earlier_rows=earlier)
    assert tried == expected


def test_a_number_alone_is_kept():
    tried: list[int] = []
    with pytest.raises(torch.OutOfMemoryError):
        fit_to_memory(run_that_fits(4, tried), config(16, 8, find=False), earlier_rows=2)
    assert tried == [8]


def test_several_processes_with_auto_and_one_row_that_does_not_fit_are_told_what_to_do():
    with pytest.raises(UsageError, match=r"with 56 rows .*; give --train.per-device-train-batch-size 28$"):
        fit_to_memory(run_that_fits(4, []), config(112, "auto", find=False), 2, on_gpu=True)
    with pytest.raises(UsageError, match="memory runs out with 1 rows per forward pass; shorten"):
        fit_to_memory(run_that_fits(0, []), config(4, 4), 1)


@pytest.mark.usefixtures("collecting")
def test_the_tensors_of_an_attempt_are_gone_before_the_next():
    kept: list[weakref.ref] = []

    def run(config: RunConfig) -> None:
        assert all(tensor() is None for tensor in kept)
        held = torch.ones(3)
        kept.append(weakref.ref(held))
        if config.train.per_device_train_batch_size != 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    fit_to_memory(run, config(16, 16))
    assert len(kept) == 3


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    def run(config: RunConfig) -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        fit_to_memory(run, config(4, 4), 1)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("of a device"), True),
        (MemoryError(), True),
        (RuntimeError("Triton Error [CUDA]: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"), True),
        (RuntimeError(OSError("the first argument is no text")), False),
        (RuntimeError("shapes do not match"), False),
        (ValueError("CUDA out of memory."), False),
    ],
    ids=repr,
)
def test_what_is_a_lack_of_memory(error, expected):
    assert is_out_of_memory(error) == expected


def test_evaluation_that_does_not_fit_has_fewer_rows_too():
    tried: list[tuple[int, int]] = []

    def run(config: RunConfig) -> None:
        train = config.train
        tried.append((train.per_device_train_batch_size, train.per_device_eval_batch_size))
        if train.per_device_eval_batch_size > 12:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    fit_to_memory(run, config(48, "auto", find=False), on_gpu=True)
    assert tried == [(48, 16), (24, 16), (12, 12)]
