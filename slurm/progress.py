"""What a user sees while a study runs: a bar in a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from base.progress import ProgressBar, duration
from slurm.cells import Cell
from slurm.state import CellState, describe, read_state

LINE_EVERY_S = 15.0


class StudyProgress:
    """Follows the cells of a study through their state files.

    A finished cell gets one line that stays. Running cells are shown with their step and loss: under the bar
    in a terminal, as a line every ``LINE_EVERY_S`` seconds in a log.
    """

    def __init__(self, study_dir: Path, cells: Sequence[Cell], num_before: int) -> None:
        self._study_dir = study_dir
        self._cells = {cell.run_id: cell for cell in cells}
        self._num_cells = len(cells) + num_before
        self._num_ended = num_before
        self._ended: set[str] = set()
        self._started_s = time.time()
        self._last_line_s = time.time()
        self._bar = ProgressBar(self._num_cells, "cell", done=num_before, name="study")

    def update(self) -> None:
        """Read the states and show what changed since the last call."""
        running = []
        for run_id, cell in self._cells.items():
            if run_id in self._ended:
                continue
            state = read_state(self._study_dir, run_id)
            if state.name in ("done", "failed") and state.finished_s >= self._started_s:
                self._show_end(cell, state)
            elif state.name == "running":
                running.append(f"{cell.label} {describe(state, cell.run_dir)}")
        if self._bar.in_terminal:
            self._bar.show_beside(" | ".join(running))
        elif running and time.time() - self._last_line_s >= LINE_EVERY_S:
            self._last_line_s = time.time()
            self._bar.say(f"  {duration(time.time() - self._started_s)}  {' | '.join(running)}")

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
