"""Steps that do not fit into memory: the same rows in smaller forward passes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from accelerate.utils.memory import clear_device_cache

from base.errors import UsageError
from pretrain.config import RunConfig
from pretrain.data.shares import cut_step

# A lack of memory in the words of CUDA and Triton, of cuBLAS, and of torch on a CPU.
_TOLD_OTHERWISE = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "can't allocate memory")


def with_rows_per_pass(config: RunConfig, rows: int) -> RunConfig:
    """A configuration with so many rows in a forward pass at most."""
    train = config.train.model_copy(update={"per_device_train_batch_size": rows})
    return config.model_copy(update={"train": train})


def _with_eval_rows(config: RunConfig, rows: int) -> RunConfig:
    """A configuration that evaluates so many rows at once at most: evaluation too may not have fitted."""
    rows = min(rows, config.train.per_device_eval_batch_size)
    train = config.train.model_copy(update={"per_device_eval_batch_size": rows})
    return config.model_copy(update={"train": train})


def fit_to_memory(
    run: Callable[[RunConfig], None],
    config: RunConfig,
    num_processes: int = 1,
    on_gpu: bool = False,
    found_before: int | None = None,
) -> None:
    """Run with a number of rows a forward pass; where memory runs out, and it may, again with half of them.

    It may with ``auto`` and with ``find_batch_size``. A step keeps its rows and masks. Only dropout, which is
    drawn forward pass by forward pass, has other values than in a run that fits at once, and moved knots may
    lie between other inputs, where inputs are equal but for rounding. Several processes do not halve: one
    that ran out of memory cannot tell those that wait for its gradients.

    Args:
        run: Trains with a configuration, from the newest checkpoint on.
        config: The configuration asked for.
        num_processes: Processes that share a step.
        on_gpu: Whether it runs on GPUs.
        found_before: Rows of a forward pass that an earlier part of the run was done with, to begin with.

    Raises:
        UsageError: If one row does not fit, or if several processes would have to agree.
    """
    train = config.train
    share, size = cut_step(train, num_processes, on_gpu)
    may_halve = train.find_batch_size or train.per_device_train_batch_size == "auto"
    if train.find_batch_size and num_processes > 1:
        raise UsageError(
            f"train.find_batch_size works with one process, and this run has {num_processes}; leave it out "
            "and lower train.per_device_train_batch_size"
        )
    if may_halve and found_before:
        size = min(found_before, share if train.per_device_train_batch_size == "auto" else size)
    while True:
        try:
            return run(with_rows_per_pass(config, size))
        except Exception as error:
            if not (may_halve and is_out_of_memory(error)):
                raise
            _refuse_to_halve(size, num_processes)
        # Not in the handler: its traceback holds on to the tensors of the attempt.
        print(f"out of memory with {size} rows per forward pass; trying {size // 2}", flush=True)
        size //= 2
        config = _with_eval_rows(config, size)
        clear_device_cache(garbage_collection=True)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a device or on the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _TOLD_OTHERWISE)


def _refuse_to_halve(size: int, num_processes: int) -> None:
    if size == 1:
        raise UsageError(
            "memory runs out with one row per forward pass; shorten data.block_size or shrink the model"
        )
    if num_processes > 1:
        raise UsageError(
            f"memory runs out with {size} rows per forward pass, and {num_processes} processes cannot agree "
            f"on fewer while they train; give --train.per-device-train-batch-size {size // 2}"
        )
