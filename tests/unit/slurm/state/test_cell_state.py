"""The states of cells, as another shell reads them later."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pretrain.run.folders import StudyFolder
from slurm.state.cell_state import CellState, describe, read_progress, read_state, start_state, write_state

RUN_ID = "gpt_neo/kan/seed1-abc"


def test_a_cell_that_never_started_is_waiting(tmp_path: Path) -> None:
    assert read_state(tmp_path, RUN_ID).name == "waiting"


def test_a_running_cell_counts_its_attempts(tmp_path: Path) -> None:
    start_state(tmp_path, RUN_ID, log="a.err")
    state = start_state(tmp_path, RUN_ID, log="b.err")
    assert (state.name, state.attempts, state.log) == ("running", 2, "b.err")
    assert read_state(tmp_path, RUN_ID) == state


def test_a_running_cell_of_a_dead_process_is_missing(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    state = start_state(tmp_path, RUN_ID, log="")
    write_state(tmp_path, RUN_ID, replace(state, pid=int(child.stdout)))
    read = read_state(tmp_path, RUN_ID)
    assert read.name == "missing"
    assert "ended without a result" in read.error


def test_a_dead_process_that_nobody_collected_is_missing(tmp_path: Path) -> None:
    state = start_state(tmp_path, RUN_ID, log="")
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    write_state(tmp_path, RUN_ID, replace(state, pid=child.pid, started_s=time.time() + 60))
    deadline = time.monotonic() + 30
    while read_state(tmp_path, RUN_ID).name == "running":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert child.wait() == 0


def test_a_process_id_that_was_given_to_another_is_not_believed(tmp_path: Path) -> None:
    state = start_state(tmp_path, RUN_ID, log="")
    write_state(tmp_path, RUN_ID, replace(state, started_s=1000.0))
    assert read_state(tmp_path, RUN_ID).name == "missing"


def test_a_process_of_another_host_is_not_judged(tmp_path: Path) -> None:
    state = start_state(tmp_path, RUN_ID, log="")
    write_state(tmp_path, RUN_ID, replace(state, host="elsewhere", machine="another", pid=2**22 - 1))
    assert read_state(tmp_path, RUN_ID).name == "running"


@pytest.mark.parametrize(
    "content", [b"", b'{"name": "run', b"[1]", b'{"name": 3}', bytes(60), b'{"pid": "x"}']
)
def test_a_broken_state_file_is_told_once_and_not_there(tmp_path: Path, capsys, content: bytes) -> None:
    path = StudyFolder(tmp_path).cell_file(RUN_ID)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert read_state(tmp_path, RUN_ID).name == "waiting"
    (line,) = capsys.readouterr().err.splitlines()
    assert path.name in line
    assert read_state(tmp_path, RUN_ID).name == "waiting"
    assert capsys.readouterr().err == ""


def test_states_of_other_versions_are_read(tmp_path: Path) -> None:
    path = StudyFolder(tmp_path).cell_file(RUN_ID)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"name": "failed", "error": "x", "colour": "blue"}), encoding="utf-8")
    assert read_state(tmp_path, RUN_ID) == CellState(name="failed", error="x")


def test_a_state_that_cannot_be_written_stops_nothing(tmp_path: Path, capsys) -> None:
    (tmp_path / "cells").write_text("in the way", encoding="utf-8")
    state = start_state(tmp_path, RUN_ID, log="")
    assert state.name == "running"
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot be written" in line


@pytest.mark.parametrize(
    "line", ["3", "[]", '"step"', '{"step": "x"}', '{"step": NaN}', '{"max_steps": Infinity}', "[" * 9999]
)
def test_progress_skips_lines_that_are_none(tmp_path: Path, line: str) -> None:
    good = json.dumps({"step": 1, "max_steps": 50, "loss": 7.5})
    (tmp_path / "metrics.jsonl").write_text(f"{good}\n{line}\n", encoding="utf-8")
    assert read_progress(tmp_path) == ({} if len(line) > 8192 else {"step": 1, "max_steps": 50, "loss": 7.5})


def test_progress_is_read_from_the_last_whole_lines(tmp_path: Path) -> None:
    assert read_progress(tmp_path) == {}
    lines = [
        {"step": 1, "max_steps": 50, "loss": 7.5, "tokens_per_s": 100.0},
        {"step": 10, "max_steps": 50, "loss": 6.5, "tokens_per_s": 200.0},
        {"step": 10, "eval_loss": 6.6},
    ]
    text = "\n".join(map(json.dumps, lines)) + '\n{"step": 11, "lo'
    (tmp_path / "metrics.jsonl").write_text(text, encoding="utf-8")
    progress = read_progress(tmp_path)
    assert progress["step"] == 10
    assert progress["loss"] == 6.5
    assert progress["max_steps"] == 50


def test_a_running_cell_is_described_with_the_time_left(tmp_path: Path) -> None:
    state = start_state(tmp_path, RUN_ID, log="")
    assert describe(state, tmp_path) == "starting"
    line = {"step": 10, "max_steps": 50, "loss": 6.5, "tokens_per_s": 2000.0, "time_s": 30.0}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    words = describe(state, tmp_path)
    assert words == "step 10/50, loss 6.500, 2,000 tokens/s, 2 min 00 s left"
    assert describe(replace(state, stage="evaluate"), tmp_path) == "evaluating"
    assert time.time() > state.started_s
