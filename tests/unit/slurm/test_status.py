"""What the status of a study shows while the study goes on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from pretrain.run.folders import StudyFolder
from slurm import status
from slurm.state import CellState, write_state

FIRST, SECOND = "gpt_neo/gelu/seed101-00000001", "gpt_neo/gelu/seed1-00000002"


def _list(study: Path, *run_ids: str) -> None:
    StudyFolder(study).study_file.write_text(yaml.safe_dump({"cells": list(run_ids)}), encoding="utf-8")


def test_watching_sees_cells_that_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tuned study names its next cells once the ones before are done."""
    _list(tmp_path, FIRST)
    write_state(tmp_path, FIRST, CellState(name="queued"))
    slept: list[float] = []

    def go_on(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:
            _list(tmp_path, FIRST, SECOND)
            write_state(tmp_path, SECOND, CellState(name="queued"))
        else:
            write_state(tmp_path, SECOND, CellState(name="done"))
        write_state(tmp_path, FIRST, CellState(name="done"))

    monkeypatch.setattr(time, "sleep", go_on)
    status.main([str(tmp_path), "--watch", "--html", "--every", "7"])
    assert slept == [7, 7]
    assert "2 cells: 2 done" in capsys.readouterr().out
    page = StudyFolder(tmp_path).status_page.read_text(encoding="utf-8")
    assert "2 of 2 cells done" in page
    assert SECOND in page
