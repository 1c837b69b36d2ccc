"""What submitit runs on a cluster: the cells of one job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

import submitit
from submitit.helpers import DelayedSubmission, TorchDistributedEnvironment

from slurm.study.cells import Cell
from slurm.worker.cell import Worker, has_gpu, run_cells, run_shared_cell, tell_of_edited_code

Layout = Literal["in-turn", "at-once", "shared"]
"""Cells one after the other; by several processes at once, each with its part; one cell by all processes."""


class CellJob:
    """Runs cells; a cluster calls it in every task of a job.

    Args:
        layout: How the job's processes share them.
    """

    def __init__(self, layout: Layout = "in-turn") -> None:
        self.layout = layout

    def __call__(self, cells: Sequence[Cell]) -> None:
        environment = submitit.JobEnvironment()
        rank = environment.global_rank
        tell_of_edited_code()
        worker = Worker(log=str(environment.paths.stderr), job=environment.job_id, rank=rank)
        if self.layout == "shared":
            _join_processes()
            run_shared_cell(cells[0], worker)
        elif self.layout == "at-once":
            run_cells(cells[rank :: environment.num_tasks], worker)
        else:
            run_cells(cells, worker)

    def checkpoint(self, cells: Sequence[Cell]) -> DelayedSubmission:
        """What to queue again when time runs out: the same, as every cell continues where it was."""
        return DelayedSubmission(self, cells)


def _join_processes() -> None:
    """Tell Accelerate of the job's other processes."""
    # Where node names do not resolve, the preset's environment names an address.
    named = os.environ.get("MASTER_ADDR")
    # CUDA_VISIBLE_DEVICES stays, as Accelerate chooses by LOCAL_RANK.
    TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)
    if named:
        os.environ["MASTER_ADDR"] = named
    if not has_gpu():
        os.environ["ACCELERATE_USE_CPU"] = "true"
