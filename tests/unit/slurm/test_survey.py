"""Where a cell stands, by what its worker wrote and what SLURM says; every pair that can occur."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from base.errors import UsageError
from slurm.cell_state import CellState, queued_state, read_state, write_state
from slurm.cluster import cells_name, read_queue, report_name
from slurm.jobs import _asking_slurm
from slurm.survey import SILENT, is_followed, survey
from slurm.todo import sole_submitter

CELL = "gpt_neo/gelu/seed1-0a1b2c3d"


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A program named squeue that prints what a test says, as there is no SLURM in this test."""

    def answer(*lines: str, exit_code: int = 0) -> None:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "squeue"
        text = "".join(f"{line}|{cells_name(tmp_path)}\n" for line in lines)
        program.write_text(
            f"#!/bin/sh\necho \"$@\" > {folder}/asked\ncat <<'END'\n{text}END\nexit {exit_code}\n"
        )
        program.chmod(program.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return answer


def cell(name: str, job: str = "7_0", **more) -> CellState:
    return CellState(name=name, host="elsewhere", attempts=1, job=job, **more)


def state_of(study: Path, state: CellState) -> CellState:
    write_state(study, CELL, state)
    return survey(study, [CELL])[CELL]


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("queued", "7_0|PENDING||Priority", "queued"),
        ("queued", "7_0|CONFIGURING|n0|None", "queued"),
        ("queued", "7_0|RUNNING|n0|None", "queued"),  # its process is still starting
        ("running", "7_0|RUNNING|n0|None", "running"),
        ("running", "7_0|COMPLETING|n0|None", "running"),
        ("running", "7_0|PENDING||BeginTime", "queued"),  # requeued
        ("missing", "7_0|PENDING||BeginTime", "queued"),  # saved, and requeued
        ("running", "7_0|FAILED|n0|NonZeroExitCode", "missing"),
        ("running", "7_0|OUT_OF_MEMORY|n0|None", "missing"),
        ("running", None, "missing"),  # so long ago that SLURM has forgotten it
        ("queued", None, "missing"),  # cancelled while it waited
        ("queued", "7_0|CANCELLED||None", "missing"),
        ("done", None, "done"),
        ("done", "7_0|RUNNING|n0|None", "done"),  # the job goes on with other cells
        ("failed", "7_0|RUNNING|n0|None", "failed"),
        ("failed", None, "failed"),
        ("missing", None, "missing"),
    ],
)
def test_states(tmp_path: Path, queue, name: str, line: str | None, expected: str) -> None:
    queue(*([line] if line else []))
    assert state_of(tmp_path, cell(name)).name == expected


@pytest.mark.parametrize(
    ("name", "line", "may_retry"),
    [
        ("running", "7_0|FAILED|n0|NonZeroExitCode", True),
        ("running", "7_0|OUT_OF_MEMORY|n0|None", True),
        ("running", None, True),
        ("running", "7_0|CANCELLED|n0|None", False),
        ("missing", None, False),  # its worker was told to stop
        ("queued", None, False),
        ("queued", "7_0|FAILED|n0|NonZeroExitCode", True),  # its job died with a cell before it
        ("queued", "7_0|CANCELLED|n0|None", False),
        ("failed", None, False),
    ],
)
def test_only_what_was_killed_without_a_word_is_tried_again(
    tmp_path: Path, queue, name: str, line: str | None, may_retry: bool
) -> None:
    queue(*([line] if line else []))
    assert state_of(tmp_path, cell(name)).may_retry is may_retry


def test_a_queue_that_does_not_answer_says_nothing_about_a_job(tmp_path: Path, queue) -> None:
    queue("squeue: error: Unable to contact slurm controller", exit_code=1)
    assert read_queue(tmp_path) is None
    for name in ("running", "queued"):
        state = state_of(tmp_path, cell(name))
        assert (state.name, state.error) == (name, SILENT)


def test_a_study_without_jobs_asks_no_queue(tmp_path: Path, queue) -> None:
    queue()
    assert state_of(tmp_path, CellState(name="failed")).name == "failed"
    assert survey(tmp_path, ["gpt_neo/gelu/seed2-0"])["gpt_neo/gelu/seed2-0"].name == "waiting"
    assert not (tmp_path / "bin" / "asked").exists()


def test_the_queue_is_asked_once_and_by_the_names_of_the_study(tmp_path: Path, queue) -> None:
    queue("7_0|RUNNING|n0|None")
    state_of(tmp_path, cell("running"))
    asked = (tmp_path / "bin" / "asked").read_text().split()
    assert f"--name={cells_name(tmp_path)},{report_name(tmp_path)}" in asked
    assert "--me" in asked
    other = tmp_path / "elsewhere" / tmp_path.name
    assert cells_name(other) != cells_name(tmp_path)  # of a study of that name in another folder


def test_a_cell_that_ends_while_the_queue_is_asked_is_done(tmp_path: Path, queue, monkeypatch) -> None:
    def end(study: Path) -> dict:
        write_state(study, CELL, cell("done"))
        return {}

    monkeypatch.setattr("slurm.survey.read_queue", end)
    assert state_of(tmp_path, cell("running")).name == "done"


def test_handing_in_overwrites_nothing_that_the_job_has_written(tmp_path: Path) -> None:
    write_state(tmp_path, CELL, cell("failed", job="3", error="x"))
    queued_state(tmp_path, CELL, "7_0")
    assert read_state(tmp_path, CELL) == CellState(name="queued", job="7_0", attempts=1)
    write_state(tmp_path, CELL, cell("done"))
    queued_state(tmp_path, CELL, "7_0")
    assert read_state(tmp_path, CELL).name == "done"


@pytest.mark.parametrize("who", ["nobody", "command", "job"])
def test_more_cells_come_where_somebody_is_to_start_them(tmp_path: Path, queue, who: str) -> None:
    queue()
    if who == "command":
        with sole_submitter(tmp_path):
            assert is_followed(tmp_path)
    if who == "job":
        program = tmp_path / "bin" / "squeue"
        program.write_text(f"#!/bin/sh\necho '9|PENDING||Dependency|{report_name(tmp_path)}'\n")
    assert is_followed(tmp_path) is (who == "job")


def test_two_commands_do_not_submit_at_once(tmp_path: Path) -> None:
    with sole_submitter(tmp_path), pytest.raises(UsageError, match="nothing was submitted"):
        sole_submitter(tmp_path).__enter__()
    with sole_submitter(tmp_path):
        pass


def test_a_job_submits_as_a_login_shell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"SLURM_JOB_ID", "SBATCH_PARTITION", "SUBMITIT_EXECUTOR", "SLURM_CONF", "HOME_OF_MINE"}
    for name in names:
        monkeypatch.setenv(name, "x")
    with _asking_slurm():
        assert names & os.environ.keys() == {"SLURM_CONF", "HOME_OF_MINE"}
    assert names <= os.environ.keys()
    refused = pytest.raises(UsageError, match="sbatch refused the jobs: no such file; check the preset")
    with refused, _asking_slurm():
        raise OSError("no such file")
