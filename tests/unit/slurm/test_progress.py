"""What a log says while a study runs."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm import local as module
from slurm.cell_state import CellState
from slurm.local import StudyProgress


class FakeCell:
    """What the progress asks of a cell."""

    stage = "main"

    def __init__(self, seed: int) -> None:
        self.run_id = f"gpt_neo/gelu/seed{seed}-0000000{seed}"
        self.label = f"gpt_neo/gelu/seed{seed}"
        self.run_dir = self.study_dir = Path(self.run_id)


def test_a_log_says_how_long_the_study_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = time.time()
    cells = [FakeCell(seed) for seed in range(1, 7)]
    states = {cell.run_id: CellState() for cell in cells}
    states[cells[0].run_id] = CellState(name="done", started_s=now - 900, finished_s=now - 800)
    states[cells[1].run_id] = CellState(name="done")  # before there were times
    monkeypatch.setattr(module, "read_state", lambda _, run_id: states[run_id])
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.0)
    todo: Any = SimpleNamespace(cells=cells[2:], states={cell.run_id: states[cell.run_id] for cell in cells})
    study: Any = SimpleNamespace(cells=cells)
    shown = StudyProgress(study, todo, workers=2)
    states[cells[2].run_id] = CellState(name="running", started_s=time.time())
    states[cells[3].run_id] = CellState(name="running", started_s=time.time() - 1000)
    shown.update()
    said = capsys.readouterr().out.splitlines()
    assert "gpt_neo/gelu/seed3 starting" in said[0]
    # Of 100 s each: two run, two wait.
    assert said[1] == "  2 of 6 cells, about 3 min 20 s left"
