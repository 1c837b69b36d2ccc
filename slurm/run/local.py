"""Run cells on this machine: a bounded number of submitit jobs at a time, watched until all have ended."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import submitit

from ffn_variants.models.devices import VISIBLE, visible_gpus
from pretrain.run.folders import StudyFolder
from slurm.queue.sealed import Sealed
from slurm.queue.snapshot import snapshot_environment
from slurm.run.progress import StudyProgress
from slurm.state.cell_state import read_state
from slurm.state.launcher import known_launcher
from slurm.study.cells import Cell
from slurm.worker.cell import share_cores
from slurm.worker.job import CellJob

POLL_S = 0.5
MAX_ATTEMPTS = 2
# submitit ends a local job at its time limit; a study on one's own machine has none worth naming.
TIMEOUT_MIN = 60 * 24 * 30


@dataclass
class _Running:
    job: submitit.Job
    cells: tuple[Cell, ...]
    slot: int


@dataclass
class LocalRunner:
    """Works through batches of cells with ``workers`` processes.

    A cell whose process died without a result (killed, out of memory) is tried once more; one that failed
    with an error is not, because it would fail again.
    """

    study_dir: Path
    workers: int
    progress: StudyProgress
    snapshot: Path
    """Folder of the code that the processes run."""
    report: bool = True
    """Whether the report comes afterwards, which a worker writes if this command is killed."""
    follow: Callable[[], Sequence[Sequence[Cell]]] = tuple
    """Asked whenever a job has ended: batches that follow from it, while others run on."""
    _running: list[_Running] = field(default_factory=list)
    _tries: dict[str, int] = field(default_factory=dict)

    def run(self, batches: Sequence[Sequence[Cell]]) -> None:
        """Run every batch; returns when none is left, whether the cells succeeded or not."""
        waiting = deque(tuple(batch) for batch in batches)
        with known_launcher(self.study_dir, self.report):
            self._work_through(waiting)

    def _work_through(self, waiting: deque[tuple[Cell, ...]]) -> None:
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self.workers:
                    self._start(waiting.popleft())
                time.sleep(POLL_S)
                self.progress.update()
                num_before = len(self._running)
                waiting.extend(self._collect())
                if len(self._running) < num_before:
                    waiting.extend(tuple(batch) for batch in self.follow())
        except BaseException:
            for running in self._running:
                running.job.cancel()
            raise

    def _start(self, cells: tuple[Cell, ...]) -> None:
        slot = min(set(range(self.workers)) - {running.slot for running in self._running})
        executor = executor_of(StudyFolder(self.study_dir).jobs_dir, slot)
        cores = {k: v for k, v in share_cores(self.workers).items() if k not in os.environ}
        with _environment(cores | snapshot_environment(self.snapshot)), heeding_interrupts():
            job = executor.submit(Sealed(CellJob(cells)))
        for cell in cells:
            self._tries[cell.run_id] = self._tries.get(cell.run_id, 0) + 1
        self._running.append(_Running(job=job, cells=cells, slot=slot))

    def _collect(self) -> Iterator[tuple[Cell, ...]]:
        """Drop ended jobs; yield what a dead one left undone and may be tried again."""
        for running in [running for running in self._running if running.job.done()]:
            self._running.remove(running)
            left = tuple(cell for cell in running.cells if self._may_retry(cell))
            if left:
                yield left

    def _may_retry(self, cell: Cell) -> bool:
        state = read_state(self.study_dir, cell.run_id)
        return state.name not in ("done", "failed") and self._tries[cell.run_id] < MAX_ATTEMPTS


def batches(cells: Sequence[Cell], cells_per_job: int) -> list[tuple[Cell, ...]]:
    """Cut cells into jobs of at most ``cells_per_job``; one process start is shared by the cells of a job."""
    return [tuple(cells[i : i + cells_per_job]) for i in range(0, len(cells), cells_per_job)]


def executor_of(jobs_dir: Path, slot: int) -> submitit.LocalExecutor:
    """Return what starts a worker, with one of the GPUs that this process may use, in turn, where it has any.

    Args:
        jobs_dir: For the worker's logs.
        slot: Of the worker, from 0.
    """
    gpus = visible_gpus()
    # submitit numbers GPUs from 0 and hides all from a job that asks for none; what it starts says so again.
    names = [f"{VISIBLE}={gpus[slot % len(gpus)]}"] if gpus else []
    python = shlex.join(["env", *names, sys.executable])
    executor = submitit.LocalExecutor(folder=jobs_dir, python=python)
    executor.update_parameters(timeout_min=TIMEOUT_MIN)
    return executor


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """Let the processes started inside be cancelled, for which submitit sends SIGINT.

    What a script starts in the background ignores it, and so would all that this starts in turn: a worker,
    and the process that submitit has watch over it.
    """
    is_main = threading.current_thread() is threading.main_thread()  # Python allows handlers there alone
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the processes started inside."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
