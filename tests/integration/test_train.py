"""A training of two processes, started as a user does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start Python in a folder, and in a session of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    return subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.mark.slow
def test_of_two_processes_one_told_to_stop_ends_both_with_a_checkpoint(
    repository: Path, tmp_path: Path
) -> None:
    flags = ["--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"]
    flags += ["--model.hidden-size", "48", "--model.intermediate-size", "64", "--optim.max-steps", "400"]
    flags += ["--train.save-steps", "1000", "--train.batch-size", "8", "--train.no-torch-compile"]
    flags += ["--runs-dir", str(tmp_path), "--run-name", "two"]
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "pretrain/train.py", *flags]
    path = tmp_path / "default" / "gpt_neo" / "gelu" / "two"

    def finished(process: subprocess.Popen[str]) -> str:
        try:
            return process.communicate(timeout=240)[0]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    first = start(repository, *launch)
    deadline = time.monotonic() + 120
    while not (path / "metrics.jsonl").exists():
        assert first.poll() is None, first.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    workers = psutil.Process(first.pid).children(recursive=True)
    lock = str(path / ".lock")
    (writer,) = (worker for worker in workers if lock in [file.path for file in worker.open_files()])
    writer.send_signal(signal.SIGTERM)
    assert "stopped by SIGTERM after step" in finished(first)
    (saved,) = path.glob("checkpoints/*")
    second = start(repository, *launch)
    out = finished(second)
    assert second.returncode == 0, out
    assert f"continued at step {int(saved.name.removeprefix('step_'))}" in out
    assert (path / "COMPLETED").exists()
