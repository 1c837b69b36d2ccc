"""Runs in a tracker, offline, after a kill."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from base.errors import UsageError
from pretrain.resolution import load_config
from pretrain.run.run_folder import config_hash
from pretrain.training.training_run import train

TINY = [
    *("--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"),
    *("--model.hidden-size", "32", "--model.intermediate-size", "48", "--optim.max-steps", "60"),
    *("--train.save-steps", "10", "--train.logging-steps", "4", "--train.eval-steps", "60"),
    *("--train.batch-size", "4", "--train.no-torch-compile", "--ffn", "relu", "--seed", "2"),
]
STEPS = list(range(4, 61, 4))


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing leaves this machine, or lies outside the test's folder."""
    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(tmp_path),
        "WANDB_CACHE_DIR": str(tmp_path / "cache"),
        "WANDB_CONFIG_DIR": str(tmp_path / "config"),
        "TRACKIO_DIR": str(tmp_path / "trackio"),
        "GRADIO_ANALYTICS_ENABLED": "False",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def killed_and_resumed(tmp_path: Path, repository: Path, environment) -> Callable[[str], Path]:
    """Train with a tracker, kill it between two checkpoints, and resume it."""

    def train_twice(tracker: str) -> Path:
        if importlib.util.find_spec(tracker) is None:
            pytest.skip(f"needs {tracker}: pip install {tracker}")
        flags = ["--runs-dir", str(tmp_path / "runs"), "--tracker", tracker, *TINY]
        command = [sys.executable, str(repository / "pretrain" / "train.py"), *flags]
        with (tmp_path / "log").open("w") as log:
            first = subprocess.Popen(command, stdout=log, stderr=log)
            deadline = time.monotonic() + 120
            while not list(
                (tmp_path / "runs").glob("default/gpt_neo/relu/*/checkpoints/step_" + "[0-9]" * 7)
            ):
                assert first.poll() is None, (tmp_path / "log").read_text()[-2000:]
                assert time.monotonic() < deadline
                time.sleep(0.001)
            first.send_signal(signal.SIGKILL)
            first.wait()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        (run,) = (tmp_path / "runs").glob("*/gpt_neo/relu/*")
        assert "continued at step" in done.stdout or (run / "COMPLETED").is_file()
        return run

    return train_twice


@pytest.mark.ci
def test_tensorboard_has_every_line_once_after_a_kill(killed_and_resumed):
    run = killed_and_resumed("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "logs" / "default")).Reload()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for name in ("loss", "learning_rate", "grad_norm", "eval_loss"):
        expected = {line["step"]: line[name] for line in lines if name in line}
        scalars = events.Scalars(name)
        assert [event.step for event in scalars] == list(expected)
        assert [event.value for event in scalars] == pytest.approx(list(expected.values()), rel=1e-6)
    assert [event.step for event in events.Scalars("loss")] == STEPS


def test_wandb_has_names_groups_and_losses(killed_and_resumed, tmp_path):
    run = killed_and_resumed("wandb")
    folders = [path for path in (run / "logs").rglob("offline-run-*") if path.is_dir()]
    assert len(folders) == 2  # two sessions of the training
    for folder in folders:
        content = b"".join(path.read_bytes() for path in folder.glob("run-*.wandb"))
        for text in (f"gpt_neo/relu/{run.name}", "gpt_neo/relu", "tokens_per_s"):
            assert text.encode() in content, text


def test_trackio_has_the_losses(killed_and_resumed, tmp_path):
    run = killed_and_resumed("trackio")
    script = (
        "import json, trackio; from trackio.sqlite_storage import SQLiteStorage as S; "
        "print(json.dumps({run: S.get_logs('default', run) for run in S.get_runs('default')}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    runs = json.loads(done.stdout.splitlines()[-1])
    assert all(f"gpt_neo/relu/{run.name}" in name for name in runs)
    logged = {entry["step"] for logs in runs.values() for entry in logs if "loss" in entry}
    assert logged >= {step for step in STEPS if step > 20}
    assert logged <= set(STEPS)  # what trackio had not written when the run was killed is lost


@pytest.mark.parametrize("tracker", ["tensorboard", "wandb", "trackio"])
def test_a_tracker_changes_no_run(tracker: str):
    plain, other = load_config(None, TINY), load_config(None, ["--tracker", tracker, *TINY])
    assert config_hash(plain) == config_hash(other)


def test_a_tracker_that_does_not_start_is_one_line(tmp_path, environment):
    if importlib.util.find_spec("tensorboard") is None:
        pytest.skip("needs tensorboard: pip install tensorboard")
    folder = tmp_path / "runs"
    config = load_config(None, ["--runs-dir", str(folder), "--tracker", "tensorboard", *TINY])
    name = f"seed2-{config_hash(config)}"
    logs = folder / "default" / "gpt_neo" / "relu" / name / "logs"
    logs.mkdir(parents=True)
    (logs / "default").write_text("a file where a folder should be")
    with pytest.raises(
        UsageError, match=r"the tracker tensorboard does not start: .*metrics.jsonl has every"
    ):
        train(config)
