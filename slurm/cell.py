"""What a worker does: pretrain and evaluate the cells it was given, one after the other."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pretrain.stopping import Stopped
from slurm.state import CellState, start_state, write_state
from slurm.study import Cell


def is_done(cell: Cell) -> bool:
    """Whether a cell is pretrained and has every score that the study asks for."""
    from eval.evaluate import is_evaluated
    from pretrain.run_dir import is_complete

    return is_complete(cell.run_dir) and is_evaluated(cell.run_dir, cell.evaluation)


def run_cells(cells: Sequence[Cell], log: str = "") -> None:
    """Run cells in this process; a failing one is recorded and never stops the next.

    A signal to stop ends all of them: the one that trains saves first, and continues when it is run again.

    Args:
        cells: The cells, run in this order.
        log: Where this process writes its output; kept in the state for whoever looks for a traceback.
    """
    for cell in cells:
        state = start_state(cell.study_dir, cell.run_id, log)
        try:
            state = run_cell(cell, state)
        except Exception as error:
            traceback.print_exc()
            state = replace(state, name="failed", error=_one_line(error), finished_s=time.time())
        except Stopped as stopped:
            state = replace(state, name="missing", error=_one_line(stopped), finished_s=time.time())
            write_state(cell.study_dir, cell.run_id, state)
            stopped.hand_on()  # a launcher's own handler queues the job again
            raise
        write_state(cell.study_dir, cell.run_id, state)


def run_cell(cell: Cell, state: CellState) -> CellState:
    """Pretrain and evaluate one cell; work that is already done is not repeated.

    Returns:
        The state to record: done.
    """
    from eval.evaluate import evaluate_run
    from pretrain.train import train

    train(cell.config)
    state = replace(state, stage="evaluate")
    write_state(cell.study_dir, cell.run_id, state)
    evaluate_run(cell.run_dir, cell.evaluation)
    return replace(state, name="done", finished_s=time.time())


def job_log(jobs_dir: Path) -> str:
    """The file that receives this job's messages and tracebacks, when a launcher started it."""
    job_id = os.environ.get("SUBMITIT_LOCAL_JOB_ID")
    return str(jobs_dir / f"{job_id}_0_log.err") if job_id else ""


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:500]
