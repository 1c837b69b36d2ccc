"""What the status of a study shows while the study goes on."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from base.run.folder_names import RunFolder, StudyFolder
from slurm import commands, survey
from slurm.cell_state import CellState, write_state
from slurm.todo import sole_submitter

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
    commands.study_status([str(tmp_path), "--watch", "--html", "--every", "7"])
    assert slept == [7, 7]
    assert "2 cells: 2 done" in capsys.readouterr().out
    page = StudyFolder(tmp_path).status_page.read_text(encoding="utf-8")
    assert "2 cells: 2 done" in page
    assert SECOND in page


def test_watching_goes_on_between_rounds_while_a_command_runs_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All cells of a round are done, and the next are not named yet; it ends with that command."""
    _list(tmp_path, FIRST)
    write_state(tmp_path, FIRST, CellState(name="done"))
    slept: list[float] = []

    def go_on(seconds: float) -> None:
        slept.append(seconds)
        assert StudyFolder(tmp_path).status_page.is_file()
        if len(slept) == 3:
            command.close()

    monkeypatch.setattr(time, "sleep", go_on)
    monkeypatch.setattr(survey, "read_queue", lambda _: None)
    command = ExitStack()
    command.enter_context(sole_submitter(tmp_path))
    commands.study_status([str(tmp_path), "--watch", "--html"])
    assert len(slept) == 3
    commands.study_status([str(tmp_path), "--watch"])  # nobody is at it
    assert len(slept) == 3
    assert "1 cells: 1 done" in capsys.readouterr().out


def test_a_tuning_run_that_diverged_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = {"cells": [FIRST, SECOND], "stages": {"tune": [FIRST], "main": [SECOND]}}
    StudyFolder(tmp_path).study_file.write_text(yaml.safe_dump(content), encoding="utf-8")
    for run_id in (FIRST, SECOND):
        run = RunFolder(tmp_path / run_id)
        run.path.mkdir(parents=True)
        run.failure_marker.write_text("the loss is not finite")
        write_state(tmp_path, run_id, CellState(name="failed", error="the loss is not finite"))
    commands.study_status([str(tmp_path), "--html"])
    said = capsys.readouterr().out.splitlines()
    assert said[0].split()[:2] == [FIRST, "diverged"]
    assert said[1].split()[:2] == [SECOND, "failed"]
    assert "2 cells: 1 diverged, 1 failed" in said
    page = StudyFolder(tmp_path).status_page.read_text(encoding="utf-8")
    assert page.count("<td>failed</td>") == 1
    assert "1 diverged" in page
