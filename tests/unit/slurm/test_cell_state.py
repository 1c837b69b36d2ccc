"""The states of cells, as another shell reads them later."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from base.errors import OccupiedError
from base.run.folder_names import StudyFolder
from slurm import cell_state
from slurm.cell_state import (
    CellState,
    describe,
    held_cell,
    read_progress,
    read_state,
    start_state,
    write_state,
)
from tests.cases import listed

RUN_ID = "gpt_neo/kan/seed1-abc"


def test_a_running_cell_that_no_process_holds_is_missing(tmp_path: Path) -> None:
    """However its process died: the system lets go of the lock."""
    start_state(tmp_path, RUN_ID, "x.log")
    lock = StudyFolder(tmp_path).cell_lock_file(RUN_ID)
    command = ["flock", "--no-fork", str(lock), "sh", "-c", "echo; exec sleep 100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        assert read_state(tmp_path, RUN_ID).name == "running"
        with pytest.raises(OccupiedError), held_cell(tmp_path, RUN_ID, 0):
            pass
        child.kill()
    state = read_state(tmp_path, RUN_ID)
    assert (state.name, state.may_retry, state.log) == ("missing", True, "x.log")
    assert "ended without a result" in state.error
    start_state(tmp_path, RUN_ID, log="", job="7_0")
    assert read_state(tmp_path, RUN_ID).name == "running"  # of a job SLURM knows


def test_how_a_cell_ended_counts_where_its_process_let_go_meanwhile(tmp_path: Path, monkeypatch) -> None:
    def let_go(_: Path) -> bool:
        write_state(tmp_path, RUN_ID, CellState(name="done"))
        return False

    (tmp_path / RUN_ID).mkdir(parents=True)
    start_state(tmp_path, RUN_ID, log="")
    monkeypatch.setattr(cell_state, "is_locked", let_go)
    assert read_state(tmp_path, RUN_ID).name == "done"
    write_state(tmp_path, RUN_ID, CellState(name="done", has_scores=True))
    state = read_state(tmp_path, RUN_ID)
    assert (state.name, state.error) == ("missing", "its scores were removed")
    (tmp_path / RUN_ID).rmdir()
    state = read_state(tmp_path, RUN_ID)
    assert (state.name, state.error) == ("missing", "its folder was removed")


def test_a_state_that_cannot_be_written_stops_nothing(tmp_path: Path, capsys) -> None:
    (tmp_path / "cells").write_text("in the way", encoding="utf-8")
    state = start_state(tmp_path, RUN_ID, log="")
    assert state.name == "running"
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot be written" in line


GOOD = {"step": 10, "max_steps": 50, "loss": 6.5, "tokens_per_s": 2000.0, "time_s": 30.0}


def log(run: Path, *lines: str) -> None:
    (run / "metrics.jsonl").write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize(
    "line",
    ["3", "[]", '{"step": "x"}', '{"step": true}', '{"step": NaN}', '{"step": 1e15}', '{"step": 11, "lo'],
)
def test_progress_skips_what_is_none(tmp_path: Path, line: str) -> None:
    assert read_progress(tmp_path) == {}
    log(tmp_path, json.dumps({"step": 1, "loss": 7.5, "eval_loss": 6.0}), json.dumps(GOOD), line)
    assert read_progress(tmp_path) == {"eval_loss": 6.0} | GOOD


def test_progress_is_read_from_the_end_of_a_log(tmp_path: Path) -> None:
    log(tmp_path, json.dumps(GOOD), "[" * 9999)
    assert read_progress(tmp_path) == {}
    log(tmp_path, json.dumps(GOOD), " " * 7000)
    assert read_progress(tmp_path) == GOOD


@pytest.mark.parametrize(("changes", "words"), listed(__file__, "running cells"))
def test_a_running_cell_is_described_with_the_time_left(tmp_path: Path, changes: dict, words: str) -> None:
    state = start_state(tmp_path, RUN_ID, log="")
    assert describe(state, tmp_path) == "starting"
    log(tmp_path, json.dumps(GOOD | changes))
    assert describe(state, tmp_path) == words
    assert describe(replace(state, stage="evaluate"), tmp_path) == "evaluating"
