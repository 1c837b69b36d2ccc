"""Studies whose cells leave what a run leaves, instead of running."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

from slurm import run_study
from slurm.cell_state import start_state, write_state
from slurm.commands import study_run
from slurm.study.cells import Cell


class Runner:
    """Runs cells by writing what a run leaves.

    Args:
        leave: Writes it into a cell's folder; returns the error that the cell ends with, or nothing.
        fails: Run ids begin with one of these: they end with an error of their own.
        stops_at: The cell, counted from 1 over all stages, at which the process is killed.
    """

    def __init__(
        self, leave: Callable[[Cell], str | None], fails: Sequence[str] = (), stops_at: int = 0
    ) -> None:
        self.leave, self.fails, self.stops_at = leave, tuple(fails), stops_at
        self.cells: list[Cell] = []

    def __call__(self, *_: object) -> Self:
        return self

    @property
    def ran(self) -> list[str]:
        """The runs, in their order."""
        return [cell.run_id for cell in self.cells]

    def run(self, batches: Sequence[Sequence[Cell]]) -> None:
        for cell in (cell for batch in batches for cell in batch):
            if len(self.cells) + 1 == self.stops_at:
                raise KeyboardInterrupt
            self.cells.append(cell)
            state = start_state(cell.study_dir, cell.run_id, "log")
            is_failed = bool(self.fails) and cell.run_id.startswith(self.fails)
            error = "it broke" if is_failed else self.leave(cell)
            ended = replace(state, name="failed" if error else "done", error=error or "")
            write_state(cell.study_dir, cell.run_id, ended)


@pytest.fixture
def submit(write_study: Callable[..., Path], tmp_path: Path, monkeypatch) -> Callable[..., int]:
    """Run a study, whose changes are given by name; its cells by ``runner``."""
    monkeypatch.setattr(run_study, "_prepare", lambda *_: None)
    monkeypatch.setattr(run_study, "take_snapshot", lambda *_: tmp_path)

    def call(*flags: str, runner: Runner, **changes: Any) -> int:
        monkeypatch.setattr(run_study, "LocalRunner", runner)
        return study_run([str(write_study(**changes)), *flags])

    return call
