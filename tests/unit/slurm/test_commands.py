"""``study cancel`` stops the command of this very study alone; ``study status`` follows one that goes on."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from base.errors import UsageError
from base.run.folder_names import RunFolder, StudyFolder
from slurm import cell_state, commands
from slurm.cell_state import CellState, write_state
from slurm.cluster import QueuedJob, cells_name, report_name
from slurm.commands import cancel_study, study_cancel, study_status
from slurm.todo import sole_submitter

NOTHING = "nothing of this study is queued or running\n"
FIRST, SECOND = "gpt_neo/gelu/seed101-00000001", "gpt_neo/gelu/seed1-00000002"
Start = Callable[[Path], subprocess.Popen[bytes]]


@pytest.fixture(autouse=True)
def no_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "read_queue", lambda _: {})
    monkeypatch.setattr(cell_state, "read_queue", lambda _: None)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that hold a study's lock and sleep."""
    started: list[subprocess.Popen[bytes]] = []

    def make(study: Path) -> subprocess.Popen[bytes]:
        study.mkdir(exist_ok=True)
        lock = StudyFolder(study).submit_lock_file
        command = ["flock", "--no-fork", str(lock), "sh", "-c", "echo; exec sleep 100"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout
        process.stdout.readline()
        return process

    yield make
    for process in started:
        process.kill()
        process.communicate()  # which closes its pipe, too


def test_the_command_of_the_study_is_told_to_stop_and_that_of_another_is_not(tmp_path, capsys, start):
    own, other = start(tmp_path / "own"), start(tmp_path / "other")
    cancel_study(tmp_path / "own")
    assert capsys.readouterr().out == f"cancelled: process {own.pid}\n"
    assert own.wait(timeout=30) == -15
    assert other.poll() is None
    cancel_study(tmp_path / "own")
    assert capsys.readouterr().out == NOTHING


def test_a_process_that_has_the_file_of_a_lock_that_nobody_holds_is_left_alone(tmp_path, capsys):
    file = StudyFolder(tmp_path).submit_lock_file
    file.touch()
    with file.open() as opened, subprocess.Popen(["sleep", "100"], stdin=opened) as process:
        cancel_study(tmp_path)
        assert capsys.readouterr().out == NOTHING
        assert process.poll() is None
        process.kill()


def test_a_command_of_another_machine_is_stopped_there(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(commands, "_has_open", lambda *_: False)
    with sole_submitter(tmp_path), pytest.raises(UsageError, match="runs on another machine"):
        cancel_study(tmp_path)


def test_jobs_are_cancelled_by_name_the_report_before_the_cells(tmp_path: Path, capsys, monkeypatch) -> None:
    cells, report = cells_name(tmp_path), report_name(tmp_path)
    queue = {
        "5_0": QueuedJob("COMPLETED", "n0", "", cells),
        "7_0": QueuedJob("RUNNING", "n0", "", cells),
        "7_1": QueuedJob("PENDING", "", "", cells),
        "8": QueuedJob("PENDING", "", "", report),
    }
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(commands, "read_queue", lambda _: queue)
    monkeypatch.setattr(commands, "scancel", lambda *options: calls.append(options))
    cancel_study(tmp_path)
    assert calls == [("--me", f"--name={report}"), ("--me", f"--name={cells}")]
    assert capsys.readouterr().out == "cancelled: SLURM 8, SLURM 7\n"


def test_where_slurm_does_not_answer_the_command_here_is_stopped_and_told_of(
    tmp_path: Path, capsys, monkeypatch, start: Start
) -> None:
    """That no job was cancelled is told where some were handed in."""
    monkeypatch.setattr(commands, "read_queue", lambda _: None)
    jobs = StudyFolder(tmp_path).jobs_dir
    jobs.mkdir()
    (jobs / "gpt_neo--gelu--seed1.log").touch()
    cancel_study(tmp_path)
    assert capsys.readouterr().out == NOTHING
    (jobs / "20260101-000000-abcd").mkdir()
    own = start(tmp_path)
    with pytest.raises(UsageError, match="SLURM does not answer, so its jobs go on"):
        cancel_study(tmp_path)
    assert capsys.readouterr().out == f"cancelled: process {own.pid}\n"
    assert own.wait(timeout=30) == -15


def test_by_its_folder_a_study_is_cancelled_as_by_its_file(tmp_path: Path, capsys) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.yaml").write_text("cells: [gpt_neo/gelu/seed1-abc]\n")
    study_cancel([str(tmp_path / "study")])
    assert capsys.readouterr().out == NOTHING
    with pytest.raises(UsageError, match="was not submitted yet"):
        study_cancel(["quickstart", "--runs-dir", str(tmp_path)])
    with pytest.raises(UsageError, match=r"holds no study\.yaml"):
        study_cancel([str(tmp_path)])


def list_cells(study: Path, *run_ids: str, **more: object) -> None:
    content = {"cells": list(run_ids), **more}
    StudyFolder(study).study_file.write_text(yaml.safe_dump(content), encoding="utf-8")


def test_watching_sees_cells_that_come_later(tmp_path: Path, monkeypatch, capsys) -> None:
    """A tuned study names its next cells once the ones before are done."""
    for run_id in (FIRST, SECOND):
        (tmp_path / run_id).mkdir(parents=True)
    list_cells(tmp_path, FIRST)
    write_state(tmp_path, FIRST, CellState(name="queued", job="7_0"))
    slept: list[float] = []

    def go_on(seconds: float) -> None:
        slept.append(seconds)
        write_state(tmp_path, FIRST, CellState(name="done"))
        write_state(tmp_path, SECOND, CellState(name="queued" if len(slept) == 1 else "done"))
        list_cells(tmp_path, FIRST, SECOND)

    monkeypatch.setattr(time, "sleep", go_on)
    study_status([str(tmp_path), "--watch", "--every", "7"])
    assert slept == [7, 7]
    said = capsys.readouterr().out
    assert [said.count(each) for each in ("2 cells: 2 done", f"\n{cell_state.SILENT}; ")] == [1, 1]


def test_watching_goes_on_between_rounds_while_a_command_runs_the_study(tmp_path, monkeypatch, capsys):
    """All cells of a round are done, and the next are not named yet; it ends with that command."""
    (tmp_path / FIRST).mkdir(parents=True)
    list_cells(tmp_path, FIRST)
    write_state(tmp_path, FIRST, CellState(name="done"))
    slept: list[float] = []

    def go_on(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            command.close()

    monkeypatch.setattr(time, "sleep", go_on)
    command = ExitStack()
    command.enter_context(sole_submitter(tmp_path))
    study_status([str(tmp_path), "--watch"])
    assert len(slept) == 3
    study_status([str(tmp_path), "--watch"])  # nobody is at it
    assert len(slept) == 3
    said = capsys.readouterr().out
    assert said.count("follow by themselves") == 3
    assert "no report of these yet: ffn-ablations report" in said.splitlines()[-2]
    report = StudyFolder(tmp_path).report_file
    report.parent.mkdir()
    report.touch()
    study_status([str(tmp_path)])
    assert capsys.readouterr().out.endswith(f"\nreport: {report}\n1 cells: 1 done\n")


def test_a_tuning_run_that_diverged_is_no_failure(tmp_path: Path, capsys) -> None:
    stages = {"tune": [FIRST], "main": [SECOND]}
    list_cells(tmp_path, FIRST, SECOND, stages=stages, typed="my.yaml --cluster slurm", num_cells=2)
    for run_id in (FIRST, SECOND):
        run = RunFolder(tmp_path / run_id)
        run.path.mkdir(parents=True)
        run.failure_marker.write_text("the loss is not finite")
        write_state(tmp_path, run_id, CellState(name="failed", error="the loss is not finite"))
    study_status([str(tmp_path)])
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in said[:2]] == [[FIRST, "diverged"], [SECOND, "failed"]]
    assert said[2].endswith("study run my.yaml --cluster slurm --retry-failed")
    assert "2 cells: 1 diverged, 1 failed" in said
