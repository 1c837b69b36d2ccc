"""What a worker of a study on this machine is started with, and how it ends."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from slurm import local
from slurm.local import LocalRunner, start_worker, worker_environment


@pytest.mark.parametrize(
    ("given", "count", "seen"),
    [
        ("2,3", 2, ["2", "3", "2"]),
        ("GPU-8932f937,MIG-GPU-27bd/1/0", 2, ["GPU-8932f937", "MIG-GPU-27bd/1/0"]),
        (None, 2, ["0", "1"]),
        ("", 0, [""]),
    ],
)
def test_workers_get_the_gpus_that_their_command_may_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str | None, count: int, seen: list[str]
) -> None:
    """Each in a process of its own, whose environment is read back from there."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    if given is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    code = "import os; print(os.getenv('CUDA_VISIBLE_DEVICES'))"
    for slot, device in enumerate(seen):
        environment = worker_environment(tmp_path, slot, 2)
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert done.stdout.strip() == device
        assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path)


def test_a_worker_ends_with_the_command_that_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("written", [b"", b"5\nhal"])
def test_a_worker_whose_command_died_before_it_said_what_to_do_ends_without_a_word(written: bytes) -> None:
    """It ends as if it had been told to stop."""
    command = [sys.executable, "-m", "slurm.worker", "LOG"]
    done = subprocess.run(command, input=written, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGTERM, b"", b"")


def test_so_many_work_at_a_time_in_the_order_of_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell whose process dies twice without a word is not tried a third time."""
    started: list[str] = []
    most = alive = 0

    class Process:
        def __init__(self) -> None:
            self.polls = 0

        def poll(self) -> int | None:
            nonlocal alive
            self.polls += 1
            alive -= self.polls > 2
            return 0 if self.polls > 2 else None

    class FakeCell:
        def __init__(self, run_id: str) -> None:
            self.run_id = run_id

    def start(cells, log: Path, environment: dict[str, str]) -> Process:
        nonlocal most, alive
        started.extend(cell.run_id for cell in cells)
        alive += 1
        most = max(most, alive)
        return Process()

    progress = type("Silent", (), {"update": lambda self: None, "close": lambda self: None})()
    runner = LocalRunner(tmp_path, 2, progress, tmp_path)
    monkeypatch.setattr(local, "start_worker", start)
    monkeypatch.setattr(local, "POLL_S", 0.0)
    runner.run([[FakeCell(f"g/v/seed{i}-x")] for i in range(3)])
    assert started[:3] == ["g/v/seed0-x", "g/v/seed1-x", "g/v/seed2-x"]
    assert sorted(started) == sorted(started[:3] * 2)
    assert most == 2
