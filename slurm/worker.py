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
import torch
from submitit.helpers import DelayedSubmission, TorchDistributedEnvironment

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
    """Who works on a cell: a process of its own, or one of several that train together.

    Args:
        log: Where this process writes its output; kept in the state for whoever looks for a traceback.
        job: SLURM's id of the job; empty elsewhere.
        rank: This process among those that share the cell; only the first writes states and evaluates.
    """

    log: str = ""
    job: str = ""
    rank: int = 0


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


def run_shared_cell(cell: Cell, worker: Worker) -> None:
    """Run a cell that several processes train together; any error ends the job of all of them."""
    if worker.rank == 0:
        run_cells([cell], worker)
        if read_state(cell.study_dir, cell.run_id).name != "done":
            raise RuntimeError(f"{cell.run_id} failed; the other processes of its job must not wait for it")
    elif isinstance(cell, RunCell):
        _train(cell)


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
    return replace(state, name="done", finished_s=time.time())


def _train(cell: RunCell) -> None:
    """Train a cell; to a variant in a file the user consented when the study was submitted."""
    if cell.variant_file and not is_registered(cell.variant_file.name):
        cell.variant_file.load()
    train(cell.config, TrainingScorer)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:500]


@dataclass
class CellJob:
    """Runs cells; a cluster calls it in every task of a job.

    Args:
        is_shared: Whether all tasks train one cell together; otherwise each has its part of the cells.
    """

    is_shared: bool = False

    def __call__(self, cells: Sequence[Cell]) -> None:
        environment = submitit.JobEnvironment()
        rank = environment.global_rank
        tell_of_edited_code()
        worker = Worker(log=str(environment.paths.stderr), job=environment.job_id, rank=rank)
        if self.is_shared:
            _join_processes()
            run_shared_cell(cells[0], worker)
        else:
            run_cells(cells[rank :: environment.num_tasks], worker)

    def checkpoint(self, cells: Sequence[Cell]) -> DelayedSubmission:
        """What to queue again when time runs out: the same, as every cell continues where it was."""
        return DelayedSubmission(self, cells)


def _join_processes() -> None:
    """Tell Accelerate of the job's other processes."""
    # Where node names do not resolve, the preset's setup exports an address.
    address = os.environ.get("MASTER_ADDR")
    # CUDA_VISIBLE_DEVICES stays, as Accelerate chooses by LOCAL_RANK.
    TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)
    if address:
        os.environ["MASTER_ADDR"] = address
    if not torch.cuda.is_available():
        os.environ["ACCELERATE_USE_CPU"] = "true"


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
