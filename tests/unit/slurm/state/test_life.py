"""Cells on other machines, which cannot be asked: judged by their signs of life."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import slurm.state.life
from pretrain.run.folders import RunFolder, StudyFolder
from slurm.run.todo import find_todo, take_over
from slurm.state.cell_state import read_state, start_state, write_state
from slurm.state.life import beating, lives_here, watch
from slurm.status import render
from slurm.study.study import load_study

RUN_ID = "gpt_neo/kan/seed1-abc"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm.state.life, "PATIENCE_S", 1.0)


def elsewhere(study: Path, run_id: str, **changes) -> None:
    """Let a cell be said to run on a machine that is no more."""
    state = replace(start_state(study, run_id, log=""), host="old-name", machine="another boot", **changes)
    write_state(study, run_id, state)


def test_a_process_lives_if_it_began_before_the_cell_did() -> None:
    born = psutil.Process().create_time()
    assert lives_here(os.getpid(), born + 1)
    assert not lives_here(os.getpid(), born - 1)
    assert not lives_here(2**22 + 1, born + 1)
    assert not lives_here(-1, born + 1)
    assert not lives_here(2**70, born + 1)


def test_a_worker_touches_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm.state.life, "BEAT_S", 0.05)
    elsewhere(tmp_path, RUN_ID)
    file = StudyFolder(tmp_path).cell_file(RUN_ID)
    os.utime(file, (0, 0))
    assert read_state(tmp_path, RUN_ID).silent_s > 1e9
    with beating(file):
        deadline = time.monotonic() + 10
        while file.stat().st_mtime < 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert read_state(tmp_path, RUN_ID).silent_s < 60
    os.utime(file, (0, 0))
    time.sleep(0.2)
    assert file.stat().st_mtime == 0


def test_a_beat_without_its_file_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm.state.life, "BEAT_S", 0.01)
    with beating(tmp_path / "absent.json"):
        time.sleep(0.1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["state", "holder_file", "metrics_file", "ledger_file"])
def test_any_file_that_changes_is_a_sign_of_life(tmp_path: Path, monkeypatch, name: str) -> None:
    monkeypatch.setattr(slurm.state.life, "PATIENCE_S", 5.0)
    run = RunFolder(tmp_path / RUN_ID)
    file = StudyFolder(tmp_path).cell_file(RUN_ID) if name == "state" else getattr(run, name)
    file.parent.mkdir(parents=True)
    file.write_text("1")
    os.utime(file, (0, 0))
    timer = threading.Timer(0.5, lambda: os.utime(file))
    timer.start()
    began = time.monotonic()
    assert watch(tmp_path, [RUN_ID]) == []
    assert time.monotonic() - began < 4
    timer.join()


def test_one_that_rests_is_dead_whatever_its_clock_said(tmp_path: Path, impatient: None) -> None:
    file = StudyFolder(tmp_path).cell_file(RUN_ID)
    file.parent.mkdir(parents=True)
    file.write_text("1")
    os.utime(file, (time.time() + 9e6,) * 2)
    assert watch(tmp_path, [RUN_ID]) == [RUN_ID]


@pytest.fixture
def study(tmp_path: Path, repository: Path):
    file = tmp_path / "moved.yaml"
    base = repository / "configs" / "tiny.yaml"
    file.write_text(
        f"name: moved\nfamilies: {{gpt_neo: {base}}}\nvariants: [gelu, relu]\nseeds: [1]\n"
        "evaluation: {suites: [embedded-pairs]}\n"
    )
    return load_study(file, {"output": {"runs_dir": str(tmp_path / "runs")}})


@pytest.mark.parametrize("retry_failed", [False, True])
def test_cells_of_a_machine_that_is_no_more_are_taken_over(study, impatient, capsys, retry_failed) -> None:
    gone, waiting = study.cells
    elsewhere(study.folder, gone.run_id)
    todo = find_todo(study, retry_failed)
    assert [cell.run_id for cell in todo.cells] == [waiting.run_id]
    taken = take_over(study, todo)
    assert taken.cells == study.cells
    assert taken.states[gone.run_id].name == "missing"
    said = capsys.readouterr().out
    assert "1 cells are said to run on old-name" in said
    assert "1 of them gave none and are taken over" in said


def test_cells_that_live_elsewhere_are_left_alone(study, monkeypatch) -> None:
    monkeypatch.setattr(slurm.state.life, "PATIENCE_S", 5.0)
    alive, waiting = study.cells
    elsewhere(study.folder, alive.run_id)
    file = StudyFolder(study.folder).cell_file(alive.run_id)
    timer = threading.Timer(0.7, lambda: os.utime(file))
    timer.start()
    todo = take_over(study, find_todo(study, retry_failed=False))
    timer.join()
    assert todo.cells == (waiting,)
    assert not todo.is_over


def test_status_says_how_long_a_cell_was_silent(tmp_path: Path) -> None:
    elsewhere(tmp_path, RUN_ID)
    file = StudyFolder(tmp_path).cell_file(RUN_ID)
    now = time.time()
    os.utime(file, (now - 12.5 * 60, now - 12.5 * 60))
    line, *_ = render(tmp_path, {RUN_ID: read_state(tmp_path, RUN_ID)}).splitlines()
    assert "running" in line
    assert "no sign of life for 12 min" in line
    assert line.endswith("ffn-ablations study run takes it over")
    os.utime(file)
    assert "no sign" not in render(tmp_path, {RUN_ID: read_state(tmp_path, RUN_ID)})
