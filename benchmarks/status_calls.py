"""What ``study status`` costs: of a study of 1,000 cells, and over 2,000 calls in one process.

    python -m benchmarks.status_calls

Prints seconds, resident memory and open descriptors. The studies are made up, in a temporary folder: of every
four cells one is done, one failed, one trains and one waits. Their jobs are asked for with squeue where there
is one.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import yaml

from base.errors import run_cli
from base.run.folder_names import StudyFolder
from slurm import commands
from slurm.cell_state import CellState, start_state, write_state

CALLS = (10, 100, 500, 1000, 2000)


def main(_args: Sequence[str] | None = None) -> None:
    """Run the command."""
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / "large", Path(folder) / "small"
        make_study(large, 1000)
        make_study(small, 20)
        began = time.perf_counter()
        said = show(large)
        print(f"{said.splitlines()[-1]}: {time.perf_counter() - began:.2f} s")
        for number in range(1, CALLS[-1] + 1):
            show(small)
            if number in CALLS:
                memory_mb = process.memory_info().rss / 2**20
                print(f"{number} calls: {memory_mb:.1f} MiB, {process.num_fds()} descriptors", flush=True)


def make_study(folder: Path, num_cells: int) -> None:
    """Write what a study's folder has that its status is read from."""
    run_ids = [f"gpt_neo/v{i % 20}/seed{i // 20}-{i:08x}" for i in range(num_cells)]
    ended_s = time.time()
    for number, run_id in enumerate(run_ids):
        run = StudyFolder(folder).run(run_id)
        run.path.mkdir(parents=True)
        lines = (f'{{"step": {step}, "max_steps": 500, "loss": 3.0}}\n' for step in range(300))
        run.metrics_file.write_text("".join(lines), encoding="utf-8")
        job = f"7_{number}"
        if number % 4 == 0:
            write_state(folder, run_id, CellState(name="done", job=job, finished_s=ended_s))
        elif number % 4 == 1:
            write_state(folder, run_id, CellState(name="failed", job=job, error="x", finished_s=ended_s))
        elif number % 4 == 2:
            start_state(folder, run_id, log="x.err", job=job)
    content = yaml.safe_dump({"name": folder.name, "cells": run_ids})
    StudyFolder(folder).study_file.write_text(content, encoding="utf-8")


def show(folder: Path) -> str:
    """Call the command; returns what it prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        commands.study_status([str(folder)])
    return said.getvalue()


if __name__ == "__main__":
    run_cli(main)
