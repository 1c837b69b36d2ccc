"""What a worker of a study on this machine is started with, how it ends, and what a log says meanwhile."""

import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from slurm import local
from slurm.cell_state import CellState
from slurm.local import LocalRunner, StudyProgress, start_worker, worker_environment
from tests.cases import listed


@pytest.mark.parametrize(("given", "count", "seen"), listed(__file__, "GPUs of workers"))
def test_workers_get_the_gpus_that_their_command_may_use(monkeypatch, tmp_path, given, count, seen):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    if given is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    for slot, device in enumerate(seen):
        environment = worker_environment(tmp_path, slot, 2)
        assert environment["CUDA_VISIBLE_DEVICES"] == device
        assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path)


def test_a_worker_ends_with_the_command_that_started_it(tmp_path, monkeypatch):
    """As the system closes its input, however that command dies; it is asleep in a signal-safe place."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "sleeper.py").write_text(
        "import time\nclass Sleeper:\n    @property\n    def study_dir(self):\n"
        "        print('at work', flush=True)\n        time.sleep(60)\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "code")
    cell = importlib.import_module("sleeper").Sleeper()
    environment = worker_environment(tmp_path / "code", 0, 1)
    process = start_worker((cell,), tmp_path / "log", environment)
    assert process.stdin
    while "at work" not in (tmp_path / "log").read_text():
        assert process.poll() is None
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(timeout=30) == -signal.SIGTERM


@pytest.mark.parametrize("written", [b"5\nhal", pytest.param(b"", marks=pytest.mark.ci)])
def test_a_worker_whose_command_died_before_it_said_what_to_do_ends_without_a_word(written: bytes) -> None:
    """It ends as if it had been told to stop."""
    command = [sys.executable, "-m", "slurm.worker", "LOG"]
    done = subprocess.run(command, input=written, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, b"", b"")


class FakeCell:
    """What is asked of a cell here."""

    stage = "main"

    def __init__(self, seed: int) -> None:
        self.run_id = f"gpt_neo/gelu/seed{seed}-0000000{seed}"
        self.label = f"gpt_neo/gelu/seed{seed}"
        self.run_dir = self.study_dir = Path(self.run_id)


class FakeProcess:
    """A worker that ends at the third look, and leaves nothing."""

    started: list[str]
    alive = most = 0

    def __init__(self, cells: Any, *_: object) -> None:
        self.polls = 0
        self.started.extend(cell.run_id for cell in cells)
        FakeProcess.alive += 1
        FakeProcess.most = max(FakeProcess.most, FakeProcess.alive)

    def poll(self) -> int | None:
        self.polls += 1
        FakeProcess.alive -= self.polls == 3
        return 0 if self.polls > 2 else None

    def communicate(self) -> None:
        pass


def test_so_many_work_at_a_time_in_the_order_of_the_list(tmp_path, monkeypatch):
    """A cell whose process dies twice without a word is not tried a third time."""
    FakeProcess.started, cells = [], [FakeCell(seed) for seed in (1, 2, 3)]
    progress: Any = SimpleNamespace(update=lambda: None, close=lambda: None)
    monkeypatch.setattr(local, "start_worker", FakeProcess)
    monkeypatch.setattr(local, "POLL_S", 0.0)
    LocalRunner(tmp_path, 2, progress, tmp_path).run([[cell] for cell in cells])
    assert FakeProcess.started[:3] == [cell.run_id for cell in cells]
    assert sorted(FakeProcess.started) == sorted(FakeProcess.started[:3] * 2)
    assert FakeProcess.most == 2


def test_a_log_says_how_long_the_study_takes(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    now = time.time()
    cells = [FakeCell(seed) for seed in range(1, 7)]
    states = {cell.run_id: CellState() for cell in cells}
    states[cells[0].run_id] = CellState(name="done", started_s=now - 900, finished_s=now - 800)
    states[cells[1].run_id] = CellState(name="done")  # before there were times
    monkeypatch.setattr(local, "read_state", lambda _, run_id: states[run_id])
    monkeypatch.setattr(local, "LINE_EVERY_S", 0.0)
    todo: Any = SimpleNamespace(cells=cells[2:], states={cell.run_id: states[cell.run_id] for cell in cells})
    study: Any = SimpleNamespace(cells=cells)
    shown = StudyProgress(study, todo, workers=2)
    states[cells[2].run_id] = CellState(name="running", started_s=time.time())
    states[cells[3].run_id] = CellState(name="running", started_s=time.time() - 1000)
    shown.update()
    said = capsys.readouterr().out.splitlines()
    assert "gpt_neo/gelu/seed3 starting" in said[0]
    # Of 100 s each: two run, two wait.
    assert said[1] == "  2 of 6 cells, about 3 min 20 s left"
