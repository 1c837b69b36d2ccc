"""What a worker does: pretrain and evaluate the cells it was given, one after the other."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace

import submitit
from submitit.helpers import DelayedSubmission

from base.errors import DeviceError, OccupiedError, UsageError, WorldError, as_usage_error, run_cli
from base.run.folder_names import RunFolder
from eval.evaluate import evaluate_run
from eval.identity import admit_run
from eval.zero_shot.during_training import TrainingScorer
from ffn_variants.names import is_registered
from pretrain.training.stopping import Stopped
from pretrain.training.training_run import train
from slurm.cell_state import CellState, held_cell, read_state, start_state, write_state
from slurm.snapshot import tell_of_edited_code
from slurm.study.cells import BackboneCell, Cell, RunCell
from slurm.todo import is_done

# A job whose node was lost is started elsewhere while it may run on: the second waits for the first.
OCCUPIED_WAIT_S = 600.0


@dataclass(frozen=True)
class Worker:
    """Who works on a cell.

    Args:
        log: Where this process writes its output; kept in the state for whoever looks for a traceback.
        job: SLURM's id of the job; empty elsewhere.
    """

    log: str = ""
    job: str = ""


def run_cells(cells: Sequence[Cell], worker: Worker | None = None) -> None:
    """Run cells in this process; a failing one is recorded and never stops the next.

    A signal to stop ends all of them: the one that trains saves first, and continues when it is run again.
    """
    for cell in cells:
        try:
            with held_cell(cell.study_dir, cell.run_id, OCCUPIED_WAIT_S):
                _run_held(cell, worker or Worker())
        except OccupiedError as error:
            print(f"{cell.run_id}: {error}; it is left to that process", flush=True)


def _run_held(cell: Cell, worker: Worker) -> None:
    """Run a cell whose lock this process holds, and record how it ended."""
    before = read_state(cell.study_dir, cell.run_id)
    if is_done(cell):  # a cell that was handed in twice, among others
        print(f"{cell.run_id}: finished", flush=True)
        if before.name != "done" and not RunFolder(cell.run_dir).has_diverged:
            write_state(cell.study_dir, cell.run_id, replace(before, name="done", error=""))
        return
    state = start_state(cell.study_dir, cell.run_id, worker.log, worker.job)
    try:
        state = run_cell(cell, state)
    except OccupiedError:
        write_state(cell.study_dir, cell.run_id, before)
        raise
    except Exception as error:
        mistake = as_usage_error(error)
        if isinstance(mistake, UsageError):
            print(f"error: {mistake}", flush=True)
        else:
            traceback.print_exc()
        # What ends with a full disk does not fail by itself, and is tried again by the next command.
        name = "missing" if isinstance(mistake, WorldError) else "failed"
        state = replace(state, name=name, error=_one_line(mistake), finished_s=time.time())
        if isinstance(mistake, DeviceError):  # other cells are for another process
            write_state(cell.study_dir, cell.run_id, state)
            raise mistake from error
    except Stopped as stopped:
        state = replace(state, name="missing", error=_one_line(stopped), finished_s=time.time())
        write_state(cell.study_dir, cell.run_id, state)
        stopped.hand_on()  # a launcher's own handler queues the job again
        raise
    write_state(cell.study_dir, cell.run_id, state)


def run_cell(cell: Cell, state: CellState) -> CellState:
    """Pretrain and evaluate one cell, or evaluate a backbone; work that is already done is not repeated.

    Returns:
        The state to record: done.

    Raises:
        OccupiedError: If another process trains or scores in its folder.
    """
    if isinstance(cell, RunCell):
        _train(cell)
    elif isinstance(cell, BackboneCell):
        cell.backbone.prepare(cell.run_dir)
        admit_run(cell.run_dir, cell.trust_remote_code)
    state = replace(state, stage="evaluate")
    write_state(cell.study_dir, cell.run_id, state)
    evaluate_run(cell.run_dir, cell.evaluation)
    has_scores = RunFolder(cell.run_dir).eval_dir.is_dir()
    return replace(state, name="done", has_scores=has_scores, finished_s=time.time())


def _train(cell: RunCell) -> None:
    """Train a cell; to a variant in a file the user consented when the study was submitted."""
    if cell.variant_file and not is_registered(cell.variant_file.name):
        cell.variant_file.load()
    train(cell.config, TrainingScorer)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:500]


class CellJob:
    """Runs cells; a cluster calls it in every task of a job, each of which has its part of them."""

    def __call__(self, cells: Sequence[Cell]) -> None:
        environment = submitit.JobEnvironment()
        tell_of_edited_code()
        worker = Worker(log=str(environment.paths.stderr), job=environment.job_id)
        run_cells(cells[environment.global_rank :: environment.num_tasks], worker)

    def checkpoint(self, cells: Sequence[Cell]) -> DelayedSubmission:
        """What to queue again when time runs out: the same, as every cell continues where it was."""
        return DelayedSubmission(self, cells)


def main(log: str) -> None:
    """Run the cells that the command wrote: a line with the number of bytes, and these bytes.

    A command that died while it wrote ends this process too, without a word.
    """
    length = int(sys.stdin.buffer.readline() or b"0")
    content = sys.stdin.buffer.read(length)
    if not content or len(content) < length:
        _end_with_command()
    threading.Thread(target=_end_with_command, daemon=True).start()
    tell_of_edited_code()
    run_cells(pickle.loads(content), Worker(log=log))


def _end_with_command() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1]))
