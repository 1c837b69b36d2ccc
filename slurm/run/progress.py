"""What a user sees while a study runs: a bar in a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from base.progress import ProgressBar, duration
from scores.stages import TUNE
from slurm.state.cell_state import CellState, describe, read_state
from slurm.study.cells import Cell
from slurm.time_left import CellTime, kind_of, tell_time_left

LINE_EVERY_S = 15.0


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
        num_before = len(before)
        self._study_dir = study_dir
        self._to_come, self._workers = to_come, workers
        self._before = [_time(cell, _ended(read_state(study_dir, cell.run_id))) for cell in before]
        self._states: dict[str, CellState] = {}
        self._cells = {cell.run_id: cell for cell in cells}
        self._num_cells = len(cells) + num_before
        self._num_ended = num_before
        self._ended: set[str] = set()
        self._started_s = time.time()
        self._last_line_s = time.time()
        is_tuning = any(cell.stage == TUNE for cell in cells)
        name = "tuning" if is_tuning else "study"
        self._bar = ProgressBar(self._num_cells, "cell", done=num_before, name=name)

    def update(self) -> None:
        """Read the states and show what changed since the last call."""
        running = []
        for run_id, cell in self._cells.items():
            if run_id in self._ended:
                continue
            state = self._states[run_id] = read_state(self._study_dir, run_id)
            if state.name in ("done", "failed") and state.finished_s >= self._started_s:
                self._show_end(cell, state)
            elif state.name == "running":
                running.append(f"{cell.label} {describe(state, cell.run_dir)}")
        if self._bar.is_drawn:
            self._bar.show_beside(" | ".join([*filter(None, [self._left()]), *running]))
        elif running and time.time() - self._last_line_s >= LINE_EVERY_S:
            self._last_line_s = time.time()
            self._bar.say(f"  {duration(time.time() - self._started_s)}  {' | '.join(running)}")
            if left := self._left():
                self._bar.say(f"  {left}")

    def _left(self) -> str:
        """Say how long the study still takes."""
        times = (_time(cell, self._states.get(run_id, CellState())) for run_id, cell in self._cells.items())
        return tell_time_left([*self._before, *times], self._to_come, self._workers)

    def close(self) -> None:
        """Show the cells that ended last and leave the bar where it is."""
        self.update()
        self._bar.close()

    def _show_end(self, cell: Cell, state: CellState) -> None:
        self._ended.add(cell.run_id)
        self._num_ended += 1
        took = duration(state.finished_s - state.started_s)
        words = (
            f"done in {took}"
            if state.name == "done"
            else f"FAILED after {took}: {state.error} (log: {state.log})"
        )
        self._bar.say(f"[{self._num_ended}/{self._num_cells}] {cell.label} {words}")
        self._bar.advance()


def _time(cell: Cell, state: CellState) -> CellTime:
    levels = {"variant": cell.variant, **dict(cell.places)}
    return CellTime(cell.stage, kind_of(cell.run_id, levels), state)


def _ended(state: CellState) -> CellState:
    """The state of a cell that is not run again, whatever its worker left behind."""
    return state if state.name in ("done", "failed") else CellState(name="done")
