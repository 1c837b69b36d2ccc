"""Which cells of a study a command has to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurm.cell import is_done
from slurm.state import CellState
from slurm.study import Cell, Study
from slurm.survey import survey


@dataclass(frozen=True)
class Todo:
    """What a command finds: every cell's state, and those that it is to run."""

    states: Mapping[str, CellState]
    cells: tuple[Cell, ...]


def find_todo(study: Study, retry_failed: bool) -> Todo:
    """Leave out what is done, at work or queued, and what failed by itself unless it is to be tried again."""
    states = dict(survey(study.folder, [cell.run_id for cell in study.cells]))
    cells = []
    for cell in study.cells:
        state = states[cell.run_id]
        if state.name in ("queued", "running"):
            continue
        if is_done(cell):
            states[cell.run_id] = CellState(name="done")
        elif state.name != "failed" or retry_failed:
            cells.append(cell)
    return Todo(states, tuple(cells))
