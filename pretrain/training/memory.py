"""Steps that do not fit into memory: the same rows in smaller forward passes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from accelerate.utils import find_executable_batch_size

from base.errors import UsageError
from pretrain.config import RunConfig
from pretrain.data.batches import cut_step

# A lack of memory in the words of CUDA and Triton, of cuBLAS, and of torch on a CPU.
_TOLD_OTHERWISE = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "can't allocate memory")


def with_rows_per_pass(config: RunConfig, rows: int) -> RunConfig:
    """A configuration with so many rows in a forward pass at most."""
    train = config.train.model_copy(update={"per_device_train_batch_size": rows})
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
    lie between other inputs, where inputs are equal but for rounding. Evaluation too may not have fitted, so
    it has no more rows than a smaller pass. Several processes do not halve: one that ran out of memory cannot
    tell those that wait for its gradients.

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
    is_auto = train.per_device_train_batch_size == "auto"
    if not (train.find_batch_size or is_auto):
        run(with_rows_per_pass(config, size))
        return
    if train.find_batch_size and num_processes > 1:
        raise UsageError(
            f"train.find_batch_size works with one process, and this run has {num_processes}; leave it out "
            "and lower train.per_device_train_batch_size"
        )
    if found_before:
        size = min(found_before, share if is_auto else size)
    tried = [size]

    def attempt(rows: int) -> None:
        try:
            run(_with_rows(config, rows, rows < size))
            return
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            _refuse_to_halve(rows, num_processes)
        # In the one wording that Accelerate knows, and outside of the handler, whose traceback holds on to
        # the tensors of the attempt.
        raise torch.OutOfMemoryError("CUDA out of memory.")

    def halve() -> int:
        tried.append(tried[-1] // 2)
        print(f"out of memory with {tried[-2]} rows per forward pass; trying {tried[-1]}", flush=True)
        return tried[-1]

    find_executable_batch_size(attempt, size, halve)()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a device or on the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _TOLD_OTHERWISE)


def _with_rows(config: RunConfig, rows: int, in_evaluation: bool) -> RunConfig:
    """A configuration with so many rows in a forward pass at most, of an evaluation too where asked."""
    if in_evaluation:
        rows_then = min(rows, config.train.per_device_eval_batch_size)
        train = config.train.model_copy(update={"per_device_eval_batch_size": rows_then})
        config = config.model_copy(update={"train": train})
    return with_rows_per_pass(config, rows)


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
