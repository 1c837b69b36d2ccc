"""--cancel signals processes of this very study and no others, whatever a file says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from base.errors import UsageError
from base.records import write_record
from pretrain.run.folders import StudyFolder
from pretrain.run.machine import this_machine
from slurm.cancel import cancel_study, main
from slurm.state.cell_state import CellState, write_state
from slurm.state.launcher import Launcher, known_launcher, read_launcher, read_note

RUN_ID = "gpt_neo/kan/seed1-abc"
NOTHING = "nothing of this study is queued or running\n"
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that sleep, with given words in their command."""
    started: list[subprocess.Popen[bytes]] = []

    def make(*words: object, code: str = "") -> subprocess.Popen[bytes]:
        program = f"{code}\nimport time; print(flush=True); time.sleep(100)"
        command = [sys.executable, "-c", program, *map(str, words)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout
        process.stdout.readline()
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.wait()


def note(study: Path, pid: int, **changes: object) -> None:
    write_record(
        StudyFolder(study).launcher_file,
        {"pid": pid, "host": socket.gethostname(), "machine": this_machine(), "started_s": time.time()}
        | changes,
    )


def holding(study: Path) -> str:
    """Code that holds a study's lock open."""
    return f"held = open({str(StudyFolder(study).submit_lock_file)!r}, 'w')"


@pytest.mark.parametrize("words", [(), ("slurm.submit",)])
def test_a_process_that_does_not_run_the_study_is_left_alone(
    tmp_path: Path, capsys, start: Start, words
) -> None:
    process = start(*words)
    note(tmp_path, process.pid)
    cancel_study(tmp_path)
    assert capsys.readouterr().out == NOTHING
    assert process.poll() is None


def test_a_process_that_holds_the_lock_and_is_another_program_is_left_alone(
    tmp_path, capsys, start: Start
) -> None:
    process = start("editor", "/home/me/ffn-ablations/notes.txt", code=holding(tmp_path))
    note(tmp_path, process.pid)
    cancel_study(tmp_path)
    assert capsys.readouterr().out == NOTHING
    assert process.poll() is None


@pytest.mark.parametrize("word", ["slurm.submit", "/venv/bin/ffn-ablations", "ffn_ablations"])
def test_the_command_of_the_study_is_told_to_stop(tmp_path: Path, capsys, start: Start, word: str) -> None:
    process = start(word, code=holding(tmp_path))
    note(tmp_path, process.pid)
    cancel_study(tmp_path)
    assert capsys.readouterr().out == f"cancelled: process {process.pid}\n"
    assert process.wait(timeout=30) == -15


def test_the_command_of_another_study_is_left_alone(tmp_path: Path, capsys, start: Start) -> None:
    (tmp_path / "other").mkdir()
    process = start("slurm.submit", code=holding(tmp_path / "other"))
    note(tmp_path, process.pid)
    cancel_study(tmp_path)
    assert capsys.readouterr().out == NOTHING
    assert process.poll() is None


def test_by_its_folder_a_study_is_cancelled_as_by_its_file(tmp_path: Path, capsys) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.yaml").write_text("cells: [gpt_neo/gelu/seed1-abc]\n")
    assert main([str(tmp_path / "study")]) == 0
    assert main(["quickstart", "--runs-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == NOTHING * 2
    with pytest.raises(UsageError, match=r"holds no study\.yaml"):
        main([str(tmp_path)])


@pytest.mark.parametrize("pid", [0, -1, 1, 2**40])
def test_ids_that_are_none_of_a_command_are_left_alone(tmp_path: Path, capsys, pid: int) -> None:
    note(tmp_path, pid)
    cancel_study(tmp_path)
    assert capsys.readouterr().out == NOTHING


def test_a_command_of_another_machine_is_cancelled_there(tmp_path: Path) -> None:
    note(tmp_path, os.getpid(), host="elsewhere", machine="another boot")
    file = StudyFolder(tmp_path).launcher_file
    os.utime(file, (time.time() - 725,) * 2)
    with pytest.raises(UsageError, match=r"runs on elsewhere \(last sign of life 12 min 05 s ago\)"):
        cancel_study(tmp_path)


def test_a_damaged_note_is_set_aside(tmp_path: Path, capsys) -> None:
    StudyFolder(tmp_path).launcher_file.write_text('{"pid": 1, "ho')
    cancel_study(tmp_path)
    told = capsys.readouterr()
    assert told.out == NOTHING
    assert "launcher.json is damaged" in told.err


def test_a_note_lasts_as_long_as_its_command(tmp_path: Path) -> None:
    with known_launcher(tmp_path, report=True):
        launcher = read_launcher(tmp_path)
        assert launcher
        assert (launcher.pid, launcher.report, launcher.is_here) == (os.getpid(), True, True)
        assert not launcher.is_dead
    assert read_launcher(tmp_path) is None
    note(tmp_path, os.getpid(), started_s=psutil.Process().create_time() - 100)
    assert read_launcher(tmp_path) is None, "its id was given to another"
    left = read_note(tmp_path)
    assert left
    assert left.is_dead


def state_of(study: Path, pid: int) -> None:
    state = CellState(
        name="running", pid=pid, host=socket.gethostname(), machine=this_machine(), started_s=time.time()
    )
    write_state(study, RUN_ID, state)


def test_a_worker_without_its_command_is_told_to_stop(tmp_path: Path, capsys, start: Start) -> None:
    process = start("submitit.core._submit", StudyFolder(tmp_path).jobs_dir)
    state_of(tmp_path, process.pid)
    cancel_study(tmp_path)
    assert capsys.readouterr().out == f"cancelled: process {process.pid}\n"
    assert process.wait(timeout=30) < 0


@pytest.mark.parametrize("words", [(), ("submitit.core._submit",), ("submitit.core._submit", "/other/jobs")])
def test_a_process_that_is_no_worker_of_the_study_is_left_alone(
    tmp_path, capsys, start: Start, words
) -> None:
    process = start(*words)
    state_of(tmp_path, process.pid)
    cancel_study(tmp_path)
    assert capsys.readouterr().out == NOTHING
    assert process.poll() is None


def test_launchers_of_versions_before_are_read(tmp_path: Path) -> None:
    write_record(
        StudyFolder(tmp_path).launcher_file,
        {"pid": os.getpid(), "host": socket.gethostname(), "started_s": time.time()},
    )
    assert isinstance(read_launcher(tmp_path), Launcher)
