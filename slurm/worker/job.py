"""What submitit runs: the cells of one job, on this machine or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

import submitit
from submitit.helpers import TorchDistributedEnvironment

from base.files import CODE_ROOT
from pretrain.run.code_copy import is_as_copied
from slurm.study.cells import Cell
from slurm.worker.cell import Worker, has_gpu, run_cells, run_shared_cell
from slurm.worker.orphan import finish_for_dead_launcher

Layout = Literal["in-turn", "at-once", "shared"]
"""Cells one after the other; by several processes at once, each with its part; one cell by all processes."""


class CellJob:
    """Runs cells; a cluster calls it in every task of a job.

    Args:
        cells: What it runs; with ``shared`` exactly one.
        layout: How the job's processes share them.
        follow: On a cluster: hands in what follows from cells that have ended, without waiting for others.
    """

    def __init__(
        self,
        cells: tuple[Cell, ...],
        layout: Layout = "in-turn",
        follow: Callable[[], None] | None = None,
    ) -> None:
        self.cells = cells
        self.layout = layout
        self.follow = follow

    def __call__(self) -> None:
        environment = submitit.JobEnvironment()
        rank, log = environment.global_rank, str(environment.paths.stderr)
        on_cluster = os.environ.get("SLURM_JOB_ID") is not None
        if not is_as_copied(CODE_ROOT):
            print(f"the code in {CODE_ROOT} is not as it was submitted; provenance says so", flush=True)
        worker = Worker(log=log, job=environment.job_id if on_cluster else "", rank=rank)
        if self.layout == "shared":
            _join_processes()
            run_shared_cell(self.cells[0], worker)
        elif self.layout == "at-once":
            run_cells(self.cells[rank :: environment.num_tasks], worker)
        else:
            run_cells(self.cells, worker)
        if on_cluster and self.follow and (rank == 0 or self.layout == "at-once"):
            self.follow()
        if not on_cluster:
            finish_for_dead_launcher(self.cells[0].study_dir)


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
