"""Run cells on this machine: a bounded number of processes at a time, watched until all have ended."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from base.printing import ProgressBar, duration
from base.run.folder_names import StudyFolder
from ffn_variants.models.devices import VISIBLE, visible_gpus
from scores.stages import TUNE
from slurm.cell_state import CellState, describe, read_state
from slurm.study.cells import Cell
from slurm.survey import CellTime, describe_time_left
from slurm.worker import share_cores, snapshot_environment

POLL_S = 0.5
LINE_EVERY_S = 15.0
ENDED = ("done", "failed")
MAX_ATTEMPTS = 2
SAVING_S = 120.0
"""How long a worker that is told to stop may take to save."""


@dataclass(frozen=True)
class LocalRunner:
    """Works through batches of cells with ``workers`` processes, in the order of the list.

    A cell whose process died without a result (killed, out of memory) is tried once more; one that failed
    with an error is not, because it would fail again.
    """

    study_dir: Path
    workers: int
    progress: StudyProgress
    snapshot: Path
    """Folder of the code that the processes run."""

    def run(self, batches: Sequence[Sequence[Cell]]) -> None:
        """Run every batch; returns when none is left, whether the cells succeeded or not."""
        waiting = deque(batches)
        running: dict[int, tuple[subprocess.Popen[bytes], Sequence[Cell]]] = {}  # by slot
        tries: Counter[str] = Counter()
        with _ended_by_sigterm():
            try:
                while waiting or running:
                    for slot in sorted(set(range(self.workers)) - running.keys())[: len(waiting)]:
                        cells = waiting.popleft()
                        running[slot] = self._start(cells, slot), cells
                        tries.update(cell.run_id for cell in cells)
                    time.sleep(POLL_S)
                    self.progress.update()
                    # A batch whose process ended is taken up again without the cells that ended in it.
                    for slot in [
                        slot for slot, (process, _) in running.items() if process.poll() is not None
                    ]:
                        _, cells = running.pop(slot)
                        again = [cell for cell in cells if tries[cell.run_id] < MAX_ATTEMPTS]
                        states = [read_state(self.study_dir, cell.run_id) for cell in again]
                        died = [
                            cell for cell, state in zip(again, states, strict=True) if state.name not in ENDED
                        ]
                        waiting.extend([died] if died else [])
            finally:
                _stop([process for process, _ in running.values()])
                self.progress.close()

    def _has_ended(self, cell: Cell) -> bool:
        return read_state(self.study_dir, cell.run_id).name in ENDED

    def _start(self, cells: Sequence[Cell], slot: int) -> subprocess.Popen[bytes]:
        log = StudyFolder(self.study_dir).jobs_dir / f"{cells[0].run_id.replace('/', '--')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        return start_worker(cells, log, worker_environment(self.snapshot, slot, self.workers))


def worker_environment(snapshot: Path, slot: int, workers: int) -> dict[str, str]:
    """Return the variables of a worker.

    Args:
        snapshot: Folder of the code that it runs.
        slot: Of the worker, from 0; it gets one of the GPUs that this process may use, in turn.
        workers: How many share the cores.
    """
    gpus = visible_gpus()
    device = {VISIBLE: gpus[slot % len(gpus)]} if gpus else {}
    return share_cores(workers) | dict(os.environ) | snapshot_environment(snapshot) | device


def start_worker(cells: Sequence[Cell], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a process that runs cells and ends with this one, however this one dies.

    It has a session of its own, so that Ctrl-C is for this process, which tells it to save.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
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


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes that are left; those that train save first."""
    for process in processes:
        process.terminate()
    until = time.monotonic() + SAVING_S
    for process in processes:
        try:
            process.wait(timeout=max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
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
    """

    def __init__(
        self,
        study_dir: Path,
        cells: Sequence[Cell],
        before: Sequence[Cell],
        to_come: Mapping[str, int] | None = None,
        workers: int | None = None,
    ) -> None:
        """Begin.

        Args:
            study_dir: The study's folder.
            cells: Those that are run.
            before: The others of the study, which have ended.
            to_come: Stages that follow, and how many cells they will have.
            workers: Cells that run at the same time; None takes those that do.
        """
        self._study_dir, self._to_come, self._workers = study_dir, to_come, workers
        self._cells = {cell.run_id: cell for cell in cells}
        self._states: dict[str, CellState] = {}
        states = [read_state(study_dir, cell.run_id) for cell in before]
        # Cells that are not run again are done, whatever their worker left behind.
        ended = [state if state.name in ENDED else CellState(name="done") for state in states]
        self._before = [_time(cell, state) for cell, state in zip(before, ended, strict=True)]
        self._num_cells = len(cells) + len(before)
        self._ended: set[str] = set()
        self._started_s = self._last_line_s = time.time()
        name = "tuning" if any(cell.stage == TUNE for cell in cells) else "study"
        self._bar = ProgressBar(self._num_cells, "cell", done=len(before), name=name)

    def update(self) -> None:
        """Read the states and show what changed since the last call."""
        running = []
        for run_id, cell in self._cells.items():
            if run_id in self._ended:
                continue
            state = self._states[run_id] = read_state(self._study_dir, run_id)
            if state.name in ENDED and state.finished_s >= self._started_s:
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
        times = (_time(cell, self._states.get(run_id, CellState())) for run_id, cell in self._cells.items())
        return describe_time_left([*self._before, *times], self._to_come, self._workers)

    def _show_end(self, cell: Cell, state: CellState) -> None:
        self._ended.add(cell.run_id)
        took = duration(state.finished_s - state.started_s)
        end = f"FAILED after {took}: {state.error} (log: {state.log})"
        number = len(self._before) + len(self._ended)
        self._bar.say(
            f"[{number}/{self._num_cells}] {cell.label} {f'done in {took}' if state.name == 'done' else end}"
        )
        self._bar.advance()


def _time(cell: Cell, state: CellState) -> CellTime:
    return CellTime.of(cell.stage, cell.run_id, {"variant": cell.variant, **dict(cell.places)}, state)
