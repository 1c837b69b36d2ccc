"""Where a cell stands, by what its worker wrote and what SLURM says; every pair that can occur."""

from __future__ import annotations

import os
import socket
import stat
import time
from pathlib import Path

import pytest

from base.errors import UsageError
from slurm.squeue import read_queue, scrubbed_environment
from slurm.state import CellState, write_state
from slurm.submissions import Submission, read_submissions, sole_submitter, write_submission
from slurm.survey import survey

CELL = "gpt_neo/gelu/seed1-0a1b2c3d"
NOW = time.time()
HERE = socket.gethostname()
GONE = 2**22 + 1  # more than a process id can be


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A program named squeue that prints what a test says, as there is no SLURM in this test."""

    def answer(*lines: str, exit_code: int = 0) -> None:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "squeue"
        text = "".join(f"{line}\n" for line in lines)
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {exit_code}\n")
        program.chmod(program.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return answer


def state_of(study: Path, state: CellState | None, submitted_s: float | None = NOW) -> CellState:
    if state is not None:
        write_state(study, CELL, state)
    if submitted_s is not None:
        record = Submission(array="7", elements={"7_0": [CELL]}, submitted_s=submitted_s)
        write_submission(study, record)
    return survey(study, [CELL])[CELL]


def worker(name: str, started_s: float = NOW + 5, host: str = "elsewhere", **more) -> CellState:
    return CellState(name=name, pid=GONE, host=host, attempts=1, started_s=started_s, **more)


@pytest.mark.parametrize(
    ("state", "line", "expected"),
    [
        (None, "7_0|PENDING||Priority", "queued"),
        (None, "7_0|CONFIGURING|n0|None", "queued"),
        (None, "7_0|RUNNING|n0|None", "queued"),  # its process is still starting
        (worker("running"), "7_0|RUNNING|n0|None", "running"),
        (worker("running"), "7_0|COMPLETING|n0|None", "running"),
        (worker("running"), "7_0|PENDING||BeginTime", "queued"),  # requeued
        (worker("missing"), "7_0|PENDING||BeginTime", "queued"),  # saved, and requeued
        (worker("running"), "7_0|FAILED|n0|NonZeroExitCode", "missing"),
        (worker("running"), "7_0|OUT_OF_MEMORY|n0|None", "missing"),
        (worker("running"), None, "missing"),  # so long ago that SLURM has forgotten it
        (None, None, "missing"),  # cancelled while it waited
        (None, "7_0|CANCELLED||None", "missing"),
        (worker("done"), None, "done"),
        (worker("done"), "7_0|RUNNING|n0|None", "done"),  # the job goes on with other cells
        (worker("failed"), "7_0|RUNNING|n0|None", "failed"),
        (worker("failed"), None, "failed"),
        (worker("failed", started_s=NOW - 60), "7_0|PENDING||Priority", "queued"),  # --retry-failed
        (worker("failed", started_s=NOW - 60), "7_0|RUNNING|n0|None", "queued"),
        (worker("running", started_s=NOW - 60), None, "missing"),
    ],
)
def test_states(tmp_path: Path, queue, state: CellState | None, line: str | None, expected: str) -> None:
    queue(*([line] if line else []))
    found = state_of(tmp_path, state)
    assert found.name == expected
    assert found.name == "done" or found.job == "7_0"


@pytest.mark.parametrize(
    ("state", "line", "may_retry"),
    [
        (worker("running"), "7_0|FAILED|n0|NonZeroExitCode", True),
        (worker("running"), "7_0|OUT_OF_MEMORY|n0|None", True),
        (worker("running"), None, True),
        (worker("running"), "7_0|CANCELLED|n0|None", False),
        (worker("missing", error="Stopped: by SIGTERM"), None, False),
        (None, None, False),
        (None, "7_0|FAILED|n0|NonZeroExitCode", True),  # its job died with a cell before it
        (None, "7_0|CANCELLED|n0|None", False),
        (worker("running", host=HERE), "7_0|FAILED|n0|NonZeroExitCode", True),
        (worker("running", host=HERE), "7_0|CANCELLED|n0|None", False),
        (worker("failed"), None, False),
    ],
)
def test_only_what_was_killed_without_a_word_is_tried_again(
    tmp_path: Path, queue, state: CellState | None, line: str | None, may_retry: bool
) -> None:
    queue(*([line] if line else []))
    assert state_of(tmp_path, state).may_retry is may_retry


def test_a_queue_that_does_not_answer_says_nothing_about_a_job(tmp_path: Path, queue) -> None:
    queue("squeue: error: Unable to contact slurm controller", exit_code=1)
    assert read_queue() is None
    assert state_of(tmp_path, worker("running")).name == "running"
    (tmp_path / "cells").joinpath(os.listdir(tmp_path / "cells")[0]).unlink()
    assert survey(tmp_path, [CELL])[CELL].name == "queued"


def test_a_study_without_jobs_asks_no_queue(tmp_path: Path, queue) -> None:
    queue(exit_code=1)
    assert state_of(tmp_path, None, submitted_s=None).name == "waiting"


def test_the_newest_submission_counts(tmp_path: Path, queue) -> None:
    queue("7_0|FAILED|n0|x", "9_0|PENDING||Priority")
    write_submission(tmp_path, Submission(array="9", elements={"9_0": [CELL]}, submitted_s=NOW + 20))
    found = state_of(tmp_path, worker("running"))
    assert (found.name, found.job) == ("queued", "9_0")
    assert [x.array for x in read_submissions(tmp_path)] == ["7", "9"]


def test_two_commands_do_not_submit_at_once(tmp_path: Path) -> None:
    with sole_submitter(tmp_path), pytest.raises(UsageError, match="nothing was submitted"):
        sole_submitter(tmp_path).__enter__()
    with sole_submitter(tmp_path):
        pass


def test_a_job_submits_as_a_login_shell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SBATCH_PARTITION", "SUBMITIT_EXECUTOR", "SLURM_CONF", "HOME_OF_MINE"):
        monkeypatch.setenv(name, "x")
    clean = scrubbed_environment()
    assert {"SLURM_CONF", "HOME_OF_MINE"} <= clean.keys()
    assert not {"SLURM_JOB_ID", "SBATCH_PARTITION", "SUBMITIT_EXECUTOR"} & clean.keys()
