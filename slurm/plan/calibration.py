"""Speeds that are measured for a plan: some steps of every size and variant, on this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch

from base.system import num_cores
from pretrain.config import RunConfig
from pretrain.training.calibrate import calibrate
from slurm.plan.shapes import Shape, shape_of
from slurm.plan.speeds import Speed
from slurm.study.cells import RunCell

Key = tuple[Shape, int]


class Calibration:
    """Trains some steps of each shape among cells, once, and knows their speeds then.

    Args:
        cells: Cells that are to be trained.
        workers: Processes that will share this machine's cores; each run here has the cores of one.
    """

    def __init__(self, cells: Iterable[RunCell], workers: int) -> None:
        self._speeds: dict[Key, Speed] = {}
        firsts: dict[Key, RunCell] = {}
        for cell in cells:
            firsts.setdefault(_key(cell.config), cell)
        threads = torch.get_num_threads()
        if "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(max(1, num_cores() // workers))
        folder = Path(tempfile.mkdtemp(prefix="calibrate-"))
        try:
            for key, cell in firsts.items():
                self._speeds[key] = _measured(cell, folder)
        finally:
            torch.set_num_threads(threads)
            shutil.rmtree(folder, ignore_errors=True)

    def speed(self, config: RunConfig) -> Speed | None:
        """Return the speed of a shape that was measured."""
        return self._speeds.get(_key(config))


def _key(config: RunConfig) -> Key:
    return shape_of(config), config.train.batch_size


def _measured(cell: RunCell, folder: Path) -> Speed:
    timing, device = calibrate(cell.config, folder)
    place = "".join(f", {axis} {level}" for axis, level in cell.places)
    update_ms = 1e3 * timing.seconds / timing.updates
    print(
        f"calibrated {cell.config.family}, {cell.variant}{place}: {timing.tokens_per_s:,.0f} tokens/s, "
        f"{update_ms:,.1f} ms an update ({timing.updates} timed; {device})",
        flush=True,
    )
    return Speed(timing.tokens_per_s, f"calibrated: {timing.updates} updates on {device}")
