"""The command with --seeds, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from pretrain.resolution import load_config
from pretrain.run.run_folder import run_dir
from tests.processes import start_command

TINY = [
    *("--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"),
    *("--model.hidden-size", "48", "--model.intermediate-size", "64", "--optim.max-steps", "200"),
    *("--train.save-steps", "1000", "--train.logging-steps", "4", "--train.eval-steps", "100"),
    *("--train.batch-size", "4", "--train.no-torch-compile", "--family", "roberta"),
]


@pytest.fixture
def start() -> Callable[[list[str], Path], ForkServerProcess]:
    return lambda args, output: start_command("pretrain.train", *args, output=output)


def finish(process, code: int = 0) -> None:
    process.join(120)
    assert process.exitcode == code


def result(path: Path) -> tuple[bytes, list[dict]]:
    """Weights, and metrics without what depends on the clock."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    times = ("time_s", "tokens_per_s")
    metrics = [{name: value for name, value in line.items() if name not in times} for line in lines]
    return (path / "model" / "model.safetensors").read_bytes(), metrics


@pytest.mark.slow
def test_stopped_and_continued_each_seed_ends_as_in_a_command_of_its_own(start, tmp_path):
    flags, log = [*TINY, "--runs-dir", str(tmp_path)], tmp_path / "log"
    first, second = (run_dir(load_config(None, [*flags, "--seed", seed])) for seed in ("1", "2"))
    command = [*flags, "--seeds", "1,2"]

    process = start(command, log)
    deadline = time.monotonic() + 120
    while not (first / "metrics.jsonl").exists():
        assert process.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGTERM)
    finish(process, os.EX_TEMPFAIL)
    assert f"{first}: stopped by SIGTERM after step" in log.read_text()
    assert not (first / "COMPLETED").exists()
    assert not second.exists()

    finish(start(command, log))
    assert log.read_text().count("continued at step") == 1
    for seed, path in (("1", first), ("2", second)):
        alone = [*flags, "--seed", seed, "--study", "alone"]
        finish(start(alone, log))
        assert result(path) == result(run_dir(load_config(None, alone)))


def test_the_exit_code_tells_of_a_failed_seed(start, tmp_path):
    flags, log = [*TINY, "--runs-dir", str(tmp_path), "--optim.max-steps", "2"], tmp_path / "log"
    failed = run_dir(load_config(None, [*flags, "--seed", "1"]))
    failed.mkdir(parents=True)
    (failed / "FAILED").write_text("torn")
    finish(start([*flags, "--seeds", "1", "2"], log), 2)
    messages = [line for line in log.read_text().splitlines() if line.startswith("error: ")]
    assert messages[0].startswith(f"error: {failed} failed: its marker cannot be read")
    assert messages[1:] == [
        "error: 1 of 2 seeds failed, for the reasons above: 1; the same command leaves out the finished ones"
    ]
