"""Which cells of a study a command has to run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from base.sentences import first_few
from slurm.run.sources import other_sources
from slurm.state.cell_state import CellState
from slurm.state.life import PATIENCE_S, watch
from slurm.state.survey import survey
from slurm.study.cells import Cell, trained_cells
from slurm.study.study import Study
from slurm.worker.cell import is_done


@dataclass(frozen=True)
class Todo:
    """What a command finds: every cell's state, and those that it is to run.

    Attributes:
        changed: Cells whose runs were trained through another source of their variant; they count as failed.
    """

    states: Mapping[str, CellState]
    cells: tuple[Cell, ...]
    changed: tuple[Cell, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether no cell is at work or queued."""
        return not any(state.name in ("queued", "running") for state in self.states.values())


def find_todo(study: Study, retry_failed: bool) -> Todo:
    """Leave out what is done, at work or queued, and what failed by itself unless it is to be tried again.

    What was trained through another source of its variant is neither done nor run again: it has failed. What
    is missing of that variant is not run either, or one arm would be of two codes.
    """
    states = dict(survey(study.folder, [cell.run_id for cell in study.cells]))
    changes = other_sources(study.cells)
    halted = _beside(study, changes)
    cells, changed = [], []
    for cell in study.cells:
        state = states[cell.run_id]
        if state.name in ("queued", "running"):
            continue
        if change := changes.get(cell.run_id):
            states[cell.run_id] = replace(state, name="failed", error=change)
            changed.append(cell)
        elif is_done(cell):
            states[cell.run_id] = CellState(name="done")
        elif cell.run_id in halted:
            states[cell.run_id] = replace(state, name="failed", error=halted[cell.run_id])
        elif state.name != "failed" or retry_failed:
            cells.append(cell)
    return Todo(states, tuple(cells), tuple(changed))


def _beside(study: Study, changes: Mapping[str, str]) -> dict[str, str]:
    """Say by run id why cells are not run whose variant has runs of another source."""
    trained = trained_cells(study.cells)
    changed = {cell.config.model.ffn: changes[cell.run_id] for cell in trained if cell.run_id in changes}
    return {
        cell.run_id: f"not run, as of other runs of its variant: {changed[cell.config.model.ffn]}"
        for cell in trained
        if cell.config.model.ffn in changed
    }


def unfinished(study: Study) -> list[tuple[Cell, CellState]]:
    """Return the cells that are not done, whoever was to do them, with their states."""
    states = survey(study.folder, [cell.run_id for cell in study.cells])
    changes = other_sources(study.cells)
    for run_id, change in changes.items():
        states[run_id] = replace(states[run_id], name="failed", error=change)
    return [
        (cell, states[cell.run_id])
        for cell in study.cells
        if states[cell.run_id].name != "done" and (cell.run_id in changes or not is_done(cell))
    ]


def not_done_lines(left: Sequence[tuple[Cell, CellState]]) -> list[str]:
    """Tell why cells are not done; those with the same reason in one line, whatever folders it names."""
    groups: dict[str, list[tuple[Cell, CellState]]] = defaultdict(list)
    for cell, state in left:
        words = f"{state.name}: {state.error}" if state.error else state.name
        groups[words.replace(str(cell.run_dir), "").replace(cell.run_id, "")].append((cell, state))
    lines = []
    for group in groups.values():
        cell, state = group[0]
        words = f"{state.name}: {state.error}" if state.error else state.name
        labels = first_few([one.label for one, _ in group], 1)
        lines.append(f"not done: {labels}: {words} (log: {state.log or 'none'})")
    return lines


def take_over(study: Study, todo: Todo) -> Todo:
    """Wait a while for signs of life of cells on other machines; those without any are to be run too."""
    states = todo.states.items()
    silent = [i for i, state in states if state.name == "running" and state.silent_s is not None]
    if not silent:
        return todo
    hosts = ", ".join(sorted({todo.states[i].host for i in silent}))
    print(
        f"{len(silent)} cells are said to run on {hosts}; "
        f"waiting up to {PATIENCE_S:.0f} s for a sign of life",
        flush=True,
    )
    dead = watch(study.folder, silent)
    missing = {i: replace(todo.states[i], name="missing", silent_s=None) for i in dead}
    if dead:
        print(f"{len(dead)} of them gave none and are taken over", flush=True)
    due = {cell.run_id for cell in todo.cells}.union(dead)
    cells = tuple(cell for cell in study.cells if cell.run_id in due)
    return Todo({**todo.states, **missing}, cells, todo.changed)
