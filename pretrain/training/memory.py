"""Steps that do not fit into memory: the same rows in smaller forward passes."""

from __future__ import annotations

from collections.abc import Callable

from accelerate.utils import find_executable_batch_size

from base.errors import UsageError
from pretrain.config import RunConfig


def fit_to_memory(
    run: Callable[[RunConfig], None], config: RunConfig, num_processes: int, first_size: int | None = None
) -> None:
    """Run, and where memory runs out run again with half the rows a forward pass.

    A step keeps its rows and masks. Only dropout, which is drawn forward pass by forward pass, has other
    values than in a run that fits at once.

    Args:
        run: Trains with a configuration, from the newest checkpoint on.
        config: The configuration asked for.
        num_processes: Processes that share a step.
        first_size: Rows of a forward pass to begin with, as found before; None takes the config's.

    Raises:
        UsageError: If one row does not fit, or if several processes would have to agree.
    """
    if num_processes > 1:
        raise UsageError(
            f"train.find_batch_size works with one process, and this run has {num_processes}; leave it out "
            "and lower train.per_device_train_batch_size"
        )
    size = min(first_size or config.train.per_device_train_batch_size, config.train.batch_size)

    def halve() -> int:
        nonlocal size
        if size == 1:
            raise UsageError(
                "memory runs out with one row per forward pass; shorten data.block_size or shrink the model"
            )
        print(f"out of memory with {size} rows per forward pass; trying {size // 2}", flush=True)
        size //= 2
        return size

    def attempt(batch_size: int) -> None:
        train = config.train.model_copy(update={"per_device_train_batch_size": batch_size})
        try:
            run(config.model_copy(update={"train": train}))
        except MemoryError as error:  # numpy's and Python's own; Accelerate knows those of torch
            raise RuntimeError("the host is out of memory.") from error

    find_executable_batch_size(attempt, starting_batch_size=size, reduce_batch_size_fn=halve)()
