"""A study whose cells have ended, and whose report nobody will write."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest
import yaml

from base.records import write_record
from pretrain.run.folders import StudyFolder
from pretrain.run.machine import this_machine
from slurm.queue.squeue import QueuedJob
from slurm.queue.submissions import Submission, write_submission
from slurm.state import missing_report as module
from slurm.state.cell_state import CellState
from slurm.state.launcher import Launcher
from slurm.state.missing_report import missing_report

KEY = "0123456789ab"
ENDED = {
    "gpt_neo/gelu/seed1-00000001": CellState(name="done", started_s=1.0, finished_s=1e9),
    "gpt_neo/gelu/seed2-00000002": CellState(name="failed", started_s=1.0, finished_s=1e9),
}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"cells": list(ENDED)}))
    return tmp_path


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> dict:
    jobs: dict[str, QueuedJob] = {}
    monkeypatch.setattr(module, "read_queue", lambda: jobs)
    return jobs


def hand_in_last(study: Path) -> None:
    last = Submission(key=KEY, array="77", elements={"77": ()}, after=("76",), submitted_s=time.time())
    write_submission(study, last)


def test_a_last_job_that_is_gone_is_told(study: Path, queue: dict) -> None:
    assert missing_report(study, ENDED) == ""  # nobody was to write one
    hand_in_last(study)
    log = StudyFolder(study).jobs_dir / "77_0_log.err"
    assert missing_report(study, ENDED) == (
        f"no report of these cells: the job that was to write it ended without (SLURM 77, log: {log}); "
        "give the same command again"
    )


def test_one_that_waits_or_runs_is_not_missed(study: Path, queue: dict) -> None:
    hand_in_last(study)
    for state in ("PENDING", "RUNNING"):
        queue["77"] = QueuedJob(state, "", "", f"x-{KEY}")
        assert missing_report(study, ENDED) == ""
    queue["77"] = QueuedJob("FAILED", "", "", f"x-{KEY}")
    assert "ended without" in missing_report(study, ENDED)


def test_a_report_that_is_there_or_cells_at_work_need_no_word(study: Path, queue: dict) -> None:
    hand_in_last(study)
    at_work = ENDED | {"gpt_neo/gelu/seed3-00000003": CellState(name="running", started_s=1.0)}
    assert missing_report(study, at_work) == ""
    report = StudyFolder(study).report_file
    report.parent.mkdir()
    report.write_text("of the cells before")
    os.utime(report, (1e9 - 3600, 1e9 - 3600))
    assert "no report of these cells" in missing_report(study, ENDED)
    os.utime(report, (1e9 + 5, 1e9 + 5))
    assert missing_report(study, ENDED) == ""


def test_a_silent_queue_says_nothing_of_it(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hand_in_last(study)
    monkeypatch.setattr(module, "read_queue", lambda: None)
    assert missing_report(study, ENDED) == ""


@pytest.mark.parametrize(
    ("pid", "report", "is_told"),
    [(2**22 + 1, True, True), (2**22 + 1, False, False), (os.getpid(), True, False)],
    ids=["killed", "killed, without a report to write", "at work"],
)
def test_a_command_that_was_killed_is_told(
    study: Path, queue: dict, pid: int, report: bool, is_told: bool
) -> None:
    note = Launcher(
        pid=pid, host=socket.gethostname(), machine=this_machine(), started_s=time.time(), report=report
    )
    write_record(StudyFolder(study).launcher_file, note)
    assert ("the command that was to write it was killed" in missing_report(study, ENDED)) == is_told


def test_of_a_study_that_goes_on_what_follows_is_missed(study: Path, queue: dict) -> None:
    content = {"cells": list(ENDED), "until": "decided"}
    (study / "study.yaml").write_text(yaml.safe_dump(content))
    hand_in_last(study)
    assert missing_report(study, ENDED).startswith("nothing follows and there is no report: the job")
