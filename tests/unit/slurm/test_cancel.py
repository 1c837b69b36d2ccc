"""--cancel stops the command of this very study and no other process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from base.errors import UsageError
from base.run.folder_names import StudyFolder
from slurm import commands
from slurm.cluster import QueuedJob, cells_name, report_name
from slurm.commands import cancel_study, study_cancel
from slurm.todo import sole_submitter

NOTHING = "nothing of this study is queued or running\n"
Start = Callable[[Path], subprocess.Popen[bytes]]


@pytest.fixture(autouse=True)
def no_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "read_queue", lambda _: {})


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that hold a study's lock and sleep."""
    started: list[subprocess.Popen[bytes]] = []

    def make(study: Path) -> subprocess.Popen[bytes]:
        code = (
            "import sys, time; from pathlib import Path; from slurm.todo import sole_submitter\n"
            "with sole_submitter(Path(sys.argv[1])):\n    print(flush=True); time.sleep(100)"
        )
        process = subprocess.Popen([sys.executable, "-c", code, study], stdout=subprocess.PIPE)
        assert process.stdout
        process.stdout.readline()
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.ci
def test_the_command_of_the_study_is_told_to_stop_and_that_of_another_is_not(
    tmp_path: Path, capsys, start: Start
) -> None:
    own, other = start(tmp_path / "own"), start(tmp_path / "other")
    cancel_study(tmp_path / "own")
    assert capsys.readouterr().out == f"cancelled: process {own.pid}\n"
    assert own.wait(timeout=30) == -15
    assert other.poll() is None
    cancel_study(tmp_path / "own")
    assert capsys.readouterr().out == NOTHING


def test_a_process_that_has_the_file_of_a_lock_that_nobody_holds_is_left_alone(
    tmp_path: Path, capsys
) -> None:
    file = StudyFolder(tmp_path).submit_lock_file
    file.touch()
    with subprocess.Popen(["sleep", "100"], stdin=file.open()) as process:
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
    monkeypatch.setattr(commands.shutil, "which", lambda _: "squeue")
    cancel_study(tmp_path)
    assert calls == [("--me", f"--name={report}"), ("--me", f"--name={cells}")]
    assert capsys.readouterr().out == "cancelled: SLURM 8, SLURM 7\n"


def test_where_slurm_does_not_answer_the_command_here_is_stopped_and_told_of(
    tmp_path: Path, capsys, monkeypatch, start: Start
) -> None:
    """That no job was cancelled is told where some were handed in."""
    monkeypatch.setattr(commands, "read_queue", lambda _: None)
    monkeypatch.setattr(commands.shutil, "which", lambda _: "squeue")
    jobs = StudyFolder(tmp_path).jobs_dir
    jobs.mkdir()
    (jobs / "gpt_neo--gelu--seed1.log").touch()
    cancel_study(tmp_path)
    assert capsys.readouterr().out == NOTHING
    (jobs / "20260101-000000-abcd").mkdir()
    own = start(tmp_path)
    with pytest.raises(UsageError, match="SLURM does not answer, so no job was cancelled"):
        cancel_study(tmp_path)
    assert capsys.readouterr().out == f"cancelled: process {own.pid}\n"
    assert own.wait(timeout=30) == -15


def test_by_its_folder_a_study_is_cancelled_as_by_its_file(tmp_path: Path, capsys) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.yaml").write_text("cells: [gpt_neo/gelu/seed1-abc]\n")
    assert study_cancel([str(tmp_path / "study")]) == 0
    assert capsys.readouterr().out == NOTHING
    with pytest.raises(UsageError, match="was not submitted yet"):
        study_cancel(["quickstart", "--runs-dir", str(tmp_path)])
    with pytest.raises(UsageError, match=r"holds no study\.yaml"):
        study_cancel([str(tmp_path)])
