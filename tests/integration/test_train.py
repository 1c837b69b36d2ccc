"""The training command as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pretrain.resolution import load_config
from pretrain.training.dry_run import describe_run
from pretrain.training.training_run import train
from tests.processes import run_command

TINY = [
    *("--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"),
    *("--model.hidden-size", "48", "--model.intermediate-size", "64", "--optim.max-steps", "60"),
    *("--train.save-steps", "7", "--train.logging-steps", "2", "--train.eval-steps", "20"),
    "--train.no-torch-compile",
]


@pytest.fixture
def command(repository):
    """Start the script as a user does, with a Python of its own."""

    def _command(*args: str, **options) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "pretrain/train.py", *args],
            cwd=repository,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            **options,
        )

    return _command


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt_neo", "roberta", "t5", "llama"])
def test_a_killed_run_ends_as_one_never_killed(command, tmp_path, family):
    flags = [*TINY, "--family", family]
    expected = train(load_config(None, [*flags, "--runs-dir", str(tmp_path), "--run-name", "whole"]))

    path = tmp_path / "default" / family / "gelu" / "killed"
    killed = command(*flags, "--runs-dir", str(tmp_path), "--run-name", "killed")
    checkpoint = path / "checkpoints" / "step_0000014"
    deadline = time.monotonic() + 120
    while not checkpoint.exists():
        assert killed.poll() is None, killed.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    time.sleep(0.03)  # into the steps after the checkpoint
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert not (path / "COMPLETED").exists()

    again = command(*flags, "--runs-dir", str(tmp_path), "--run-name", "killed")
    assert again.wait(timeout=300) == 0, again.stderr.read()
    assert "continued at step" in again.stdout.read()
    sessions = json.loads((path / "provenance.json").read_text())["sessions"]
    assert [session["resumed_from_step"] > 0 for session in sessions] == [False, True]

    weights = [(p / "model" / "model.safetensors").read_bytes() for p in (expected, path)]
    assert weights[0] == weights[1]
    assert read_metrics(expected) == read_metrics(path)


def read_metrics(path: Path) -> list[dict]:
    """Metric lines without what depends on the clock."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [
        {k: v for k, v in line.items() if k not in ("time_s", "compile_s", "tokens_per_s")} for line in lines
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--ffn", "kann"], "did you mean 'kan'"),
        (
            ["--data.source", "files", "--data.train-files", "{empty}"],
            "has no train document with text in it",
        ),
    ],
)
def test_mistakes_are_one_line_exit_2_and_write_nothing(tmp_path, args, message):
    (tmp_path / "empty.jsonl").touch()
    runs = tmp_path / "runs"
    args = [arg.format(empty=tmp_path / "empty.jsonl") for arg in args]
    done = run_command("pretrain.train", *args, "--runs-dir", runs)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert not runs.exists()


@pytest.mark.ci
def test_dry_run_of_the_script_writes_nothing(command, tmp_path):
    done = command(
        "configs/gpt-neo.yaml", "--ffn", "kan", "--seed", "3", "--dry-run", "--runs-dir", str(tmp_path / "r")
    )
    out, err = done.communicate(timeout=120)
    assert done.returncode == 0, err
    assert "parameters       12,728,320" in out
    assert "seed3-" in out
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("name", "flags", "parameters"),
    [
        *(("gpt-neo", ["--ffn", ffn], "9,585,664") for ffn in ("gelu", "relu", "silu", "none")),
        *(("gpt-neo", ["--ffn", ffn], "9,587,712") for ffn in ("learnable-gelu", "prelu", "swish")),
        *(("roberta", ["--ffn", ffn], "9,863,952") for ffn in ("gelu", "relu", "silu", "none")),
        *(("roberta", ["--ffn", ffn], "9,866,000") for ffn in ("learnable-gelu", "prelu", "swish")),
        ("gpt-neo", ["--ffn", "kan", "--model.ffn-options", "grid_size", "3"], "11,679,744"),
        ("gpt-neo", ["--ffn", "kan"], "12,728,320"),
        ("gpt-neo", ["--ffn", "thesis-kan"], "11,679,744"),
        ("roberta", ["--ffn", "thesis-kan"], "11,303,696"),
    ],
)
def test_the_source_studys_sizes(repository, tmp_path, name, flags, parameters):
    config = load_config(repository / "configs" / f"{name}.yaml", [*flags, "--runs-dir", str(tmp_path)])
    assert f"parameters       {parameters} (" in describe_run(config)


@pytest.mark.slow
def test_of_two_processes_one_told_to_stop_ends_both_with_a_checkpoint(repository, tmp_path):
    flags = [*TINY, "--runs-dir", str(tmp_path), "--optim.max-steps", "400", "--run-name", "two"]
    flags += ["--train.save-steps", "1000", "--train.batch-size", "8"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command = [*launch, str(repository / "pretrain" / "train.py"), *flags]
    path = tmp_path / "default" / "gpt_neo" / "gelu" / "two"

    def start() -> subprocess.Popen:
        return subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    first = start()
    try:
        deadline = time.monotonic() + 120
        while not (path / "metrics.jsonl").exists():
            assert first.poll() is None, first.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        workers = psutil.Process(first.pid).children(recursive=True)
        lock = str(path / ".lock")
        (writer,) = (worker for worker in workers if lock in [file.path for file in worker.open_files()])
        writer.send_signal(signal.SIGTERM)
        out, _ = first.communicate(timeout=120)
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)
    assert "stopped by SIGTERM after step" in out
    (saved,) = path.glob("checkpoints/*")
    second = start()
    try:
        out, _ = second.communicate(timeout=240)
    finally:
        if second.poll() is None:
            os.killpg(second.pid, signal.SIGKILL)
    assert second.returncode == 0, out
    assert f"continued at step {int(saved.name.removeprefix('step_'))}" in out
    assert (path / "COMPLETED").exists()
