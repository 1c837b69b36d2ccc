"""Where a cell stands, by what its worker wrote and what SLURM says; every pair that can occur."""

from __future__ import annotations

import json
import os
import socket
import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest

from base.errors import UsageError
from slurm.queue.squeue import read_queue, scrubbed_environment
from slurm.queue.submissions import Submission, read_submissions, sole_submitter, write_submission
from slurm.state.cell_state import CellState, write_state
from slurm.state.survey import survey

CELL = "gpt_neo/gelu/seed1-0a1b2c3d"
NOW = time.time()
HERE = socket.gethostname()
KEY, OTHER = "0123456789ab", "ba9876543210"
GONE = 2**22 + 1  # more than a process id can be


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A program named squeue that prints what a test says, as there is no SLURM in this test."""

    def answer(*lines: str, exit_code: int = 0) -> None:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "squeue"
        text = "".join(f"{line if line.count('|') > 3 else f'{line}|study-{KEY}'}\n" for line in lines)
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {exit_code}\n")
        program.chmod(program.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return answer


def state_of(study: Path, state: CellState | None, submitted_s: float | None = NOW) -> CellState:
    if state is not None:
        write_state(study, CELL, state)
    if submitted_s is not None:
        record = Submission(key=KEY, array="7", elements={"7_0": (CELL,)}, submitted_s=submitted_s)
        write_submission(study, record)
    return survey(study, [CELL])[CELL]


def worker(name: str, job: str = "7_0", host: str = "elsewhere", **more) -> CellState:
    more = {"started_s": NOW + 5 if job == "7_0" else NOW - 60} | more
    return CellState(name=name, pid=GONE, host=host, attempts=1, job=job, **more)


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
        (worker("failed", job="3_0"), "7_0|PENDING||Priority", "queued"),  # --retry-failed
        (worker("failed", job="3_0"), "7_0|RUNNING|n0|None", "queued"),
        (worker("running", job="3_0"), None, "missing"),
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
    queue("7_0|FAILED|n0|x", f"9_0|PENDING||Priority|study-{OTHER}")
    newer = Submission(key=OTHER, array="9", elements={"9_0": (CELL,)}, submitted_s=NOW + 20)
    write_submission(tmp_path, newer)
    found = state_of(tmp_path, worker("running"))
    assert (found.name, found.job) == ("queued", "9_0")
    assert [x.array for x in read_submissions(tmp_path)] == ["7", "9"]


@pytest.mark.parametrize("name", ["train", "study", f"study-{OTHER[:-1]}", OTHER, ""])
def test_a_job_with_an_id_of_the_study_and_another_name_is_somebody_elses(tmp_path, queue, name) -> None:
    queue(f"7_0|RUNNING|n0|None|{name}")
    assert state_of(tmp_path, worker("running")).name == "missing"


@pytest.mark.parametrize("name", ["thesis", "thesis-report"])
def test_jobs_of_versions_without_keys_are_known_by_the_study(tmp_path: Path, queue, name: str) -> None:
    queue(f"7_0|RUNNING|n0|None|{name}")
    study = tmp_path / "thesis"
    path = study / "submissions" / "7.json"
    path.parent.mkdir(parents=True)
    old = {"array": "7", "elements": {"7_0": [CELL]}, "round": 0, "snapshot": "", "submitted_s": NOW}
    path.write_text(json.dumps(old), encoding="utf-8")
    assert state_of(study, worker("running"), submitted_s=None).name == "running"


def test_a_submission_without_an_id_says_nothing_of_its_cells(tmp_path: Path, queue) -> None:
    queue("7_0|FAILED|n0|x")
    write_submission(tmp_path, Submission(key=OTHER, elements={"_0": (CELL,)}, submitted_s=NOW + 20))
    assert state_of(tmp_path, worker("running")).job == "7_0"


def test_a_damaged_submission_is_set_aside_and_the_others_count(tmp_path: Path, queue, capsys) -> None:
    queue("7_0|PENDING||Priority")
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions" / f"{OTHER}.json").write_bytes(b"")
    assert state_of(tmp_path, None).name == "queued"
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{OTHER}.json is damaged" in line


def test_an_attempt_on_this_machine_after_a_job_is_judged_by_itself(tmp_path: Path, queue) -> None:
    queue("7_0|FAILED|n0|x")
    alive = replace(worker("running", job="", host=HERE), pid=os.getpid(), started_s=time.time() + 1)
    assert state_of(tmp_path, alive, submitted_s=NOW - 60).name == "running"
    assert (
        state_of(tmp_path, worker("running", job="", started_s=NOW), submitted_s=NOW - 60).silent_s
        is not None
    )


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
