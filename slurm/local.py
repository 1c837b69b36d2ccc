"""Run cells on this machine: a bounded number of processes at a time, watched until all have ended."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from base.errors import UsageError
from base.printing import ProgressBar, duration
from base.run.folder_names import StudyFolder
from base.system import num_cores
from ffn_variants.devices import VISIBLE, takes_one_process, visible_gpus
from scores.stages import TUNE
from slurm.cell_state import CellState, describe, describe_time_left, read_state
from slurm.snapshot import snapshot_environment
from slurm.study.cells import Cell
from slurm.study.study import Study
from slurm.todo import Todo

POLL_S = 0.5
LINE_EVERY_S = 15.0
MAX_ATTEMPTS = 2
SAVING_S = 120.0
"""How long a worker that is told to stop may take to save."""


@dataclass(frozen=True)
class LocalRunner:
    """Works through batches of cells with ``workers`` processes, in the order of the list."""

    study_dir: Path
    workers: int
    progress: StudyProgress
    snapshot: Path
    """Folder of the code that the processes run."""

    def run(self, batches: Sequence[Sequence[Cell]]) -> None:
        """Run every batch; returns when none is left, whether the cells succeeded or not.

        A cell whose process died without a result (killed, out of memory) is tried once more, alone; one that
        failed with an error is not, because it would fail again.
        """
        with _ended_by_sigterm(), contextlib.closing(self.progress):
            for _ in range(MAX_ATTEMPTS):
                self._run_once(batches)
                cells = itertools.chain.from_iterable(batches)
                batches = [
                    [cell] for cell in cells if not _has_ended(read_state(self.study_dir, cell.run_id))
                ]

    def _run_once(self, batches: Sequence[Sequence[Cell]]) -> None:
        waiting = deque(batches)
        processes: dict[int, psutil.Popen] = {}  # by slot, which decides on the GPU
        try:
            while waiting or processes:
                for slot in sorted(set(range(self.workers)) - processes.keys())[: len(waiting)]:
                    processes[slot] = self._start(waiting.popleft(), slot)
                time.sleep(POLL_S)
                self.progress.update()
                for slot in [slot for slot, process in processes.items() if process.poll() is not None]:
                    processes.pop(slot).communicate()  # which closes its pipe
        finally:
            _stop(list(processes.values()))

    def _start(self, cells: Sequence[Cell], slot: int) -> psutil.Popen:
        more = f"-and-{len(cells) - 1}-more" if cells[1:] else ""
        log = StudyFolder(self.study_dir).jobs_dir / f"{cells[0].run_id.replace('/', '--')}{more}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        return start_worker(cells, log, worker_environment(self.snapshot, slot, self.workers))


def batches(cells: Sequence[Cell], size: int, workers: int) -> list[Sequence[Cell]]:
    """Cut cells into batches of at most ``size``, fewer at the end, so that all workers end together.

    Of 18 cells, by 3 for two workers: 3, 3, 3, 3, 3, 2 and 1.
    """
    cut: list[Sequence[Cell]] = []
    while cells:
        share = min(size, -(-len(cells) // workers))
        cut.append(cells[:share])
        cells = cells[share:]
    return cut


def describe_gpus(workers: int) -> str:
    """Say how many of the workers each GPU gets; empty on a CPU.

    Raises:
        UsageError: For several on one that takes a single process.
    """
    if not (gpus := len(visible_gpus())):
        return ""
    share = -(-workers // gpus)
    if share > 1 and takes_one_process():
        raise UsageError(
            f"--workers {workers} puts {share} processes on a GPU in exclusive mode, which takes one; give "
            f"--workers {gpus}, or start MPS (nvidia-cuda-mps-control -d)"
        )
    gain = f"; small models gain 1.7 times with four: --workers {4 * gpus}" if share < 4 else ""
    return f"{gpus} GPUs, {share} of {workers} workers on each{gain}"


def _has_ended(state: CellState) -> bool:
    return state.name in ("done", "failed")


def worker_environment(snapshot: Path, slot: int, workers: int) -> dict[str, str]:
    """Return the variables of a worker.

    Args:
        snapshot: Folder of the code that it runs.
        slot: Of the worker, from 0; it gets one of the GPUs that this process may use, in turn.
        workers: How many share the cores.
    """
    gpus = visible_gpus()
    device = {VISIBLE: gpus[slot % len(gpus)]} if gpus else {}
    threads = {"OMP_NUM_THREADS": str(max(1, num_cores() // workers))}
    return threads | dict(os.environ) | snapshot_environment(snapshot) | device


def start_worker(cells: Sequence[Cell], log: Path, environment: dict[str, str]) -> psutil.Popen:
    """Start a process that runs cells and ends with this one, however this one dies.

    It has a session of its own, so that Ctrl-C is for this process, which tells it to save.
    """
    with log.open("ab") as output:
        process = psutil.Popen(
            [sys.executable, "-u", "-m", "slurm.worker", str(log)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    content = pickle.dumps(tuple(cells))
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it died at once, which is seen as for any other
        process.stdin.write(b"%d\n" % len(content) + content)
        process.stdin.flush()
    return process


def _stop(processes: Sequence[psutil.Popen]) -> None:
    """End processes that are left; those that train save first."""
    for process in processes:
        process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=SAVING_S)
    for process in alive:
        process.kill()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end what is inside as Ctrl-C does."""

    def stop(_signum: int, _frame: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    if threading.current_thread() is not threading.main_thread():  # Python allows handlers there alone
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class StudyProgress:
    """Follows the cells of a study through their state files.

    A finished cell gets one line that stays. Running cells are shown with their step and loss: under the bar
    in a terminal, as a line every ``LINE_EVERY_S`` seconds in a log.

    Args:
        study: The study.
        todo: Where its cells stand, and those that are run.
        workers: Cells that run at the same time.
    """

    def __init__(self, study: Study, todo: Todo, workers: int) -> None:
        self._study, self._workers = study, workers
        self._running = {cell.run_id: cell for cell in todo.cells}  # those that have not ended yet
        # Cells that are not run again have ended, whatever their worker left behind.
        self._states = dict(todo.states) | dict.fromkeys(self._running, CellState())
        self._started_s = self._last_line_s = time.time()
        name = "tuning" if any(cell.stage == TUNE for cell in todo.cells) else "study"
        num_ended = len(study.cells) - len(todo.cells)
        self._bar = ProgressBar(len(study.cells), "cell", done=num_ended, name=name)

    def update(self) -> None:
        """Read the states and show what changed since the last call."""
        running = []
        for run_id, cell in list(self._running.items()):
            state = read_state(cell.study_dir, run_id)
            if _has_ended(state) and state.finished_s < self._started_s:
                continue  # of a try before
            self._states[run_id] = state
            if _has_ended(state):
                self._show_end(cell, state)
            elif state.name == "running":
                running.append(f"{cell.label} {describe(state, cell.run_dir)}")
        if self._bar.is_drawn:
            self._bar.show_beside(" | ".join([*filter(None, [self._time_left()]), *running]))
        elif running and time.time() - self._last_line_s >= LINE_EVERY_S:
            self._last_line_s = time.time()
            self._bar.say(f"  {duration(time.time() - self._started_s)}  {' | '.join(running)}")
            if time_left := self._time_left():
                self._bar.say(f"  {time_left}")

    def close(self) -> None:
        """Show the cells that ended last and leave the bar where it is."""
        self.update()
        self._bar.close()

    def _time_left(self) -> str:
        return describe_time_left(self._states.values(), self._workers)

    def _show_end(self, cell: Cell, state: CellState) -> None:
        del self._running[cell.run_id]
        took = duration(state.finished_s - state.started_s)
        failed = f"FAILED after {took}: {state.error} (log: {state.log})"
        end = f"done in {took}" if state.name == "done" else failed
        num_cells = len(self._study.cells)
        self._bar.say(f"[{num_cells - len(self._running)}/{num_cells}] {cell.label} {end}")
        self._bar.advance()
