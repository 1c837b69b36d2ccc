"""How processes and their forward passes share the rows of a step."""

from __future__ import annotations

from base.errors import UsageError
from pretrain.config import TrainConfig

MOST_SHOWN = 12

ROWS_ON_A_CPU = 16
"""Of a forward pass, where its number is ``auto``: more are no faster there."""


def cut_step(train: TrainConfig, num_processes: int, on_gpu: bool = False) -> tuple[int, int]:
    """Return how many rows of a step a process has, and how many of them its forward passes have at most.

    Args:
        train: The settings; ``per_device_train_batch_size`` may be ``auto``.
        num_processes: Processes that share a step.
        on_gpu: Whether they run on GPUs, where ``auto`` is all of a process's rows.

    Raises:
        UsageError: If the rows cannot be shared equally; names the numbers of processes that can share them.
    """
    rows, left = divmod(train.batch_size, num_processes)
    if left:
        able = [number for number in range(1, train.batch_size + 1) if train.batch_size % number == 0]
        shown = ", ".join(map(str, able[:MOST_SHOWN])) + (", ..." if len(able) > MOST_SHOWN else "")
        raise UsageError(
            f"train.batch_size {train.batch_size}: {num_processes} processes cannot share so many rows "
            f"equally; start {shown}, or give a multiple of {num_processes}"
        )
    most = train.per_device_train_batch_size
    if most == "auto":
        most = rows if on_gpu else ROWS_ON_A_CPU
    return rows, min(rows, most)
