"""Runs in a tracker, offline: their names, one run after a kill, and their scores."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from base.errors import UsageError
from eval.config import EvalConfig
from eval.runner.evaluate import evaluate_run
from pretrain.resolution import load_config
from pretrain.run.run_dir import config_hash
from pretrain.run.tracking import tracked

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
    """Train with a tracker, kill it between two checkpoints, resume it, and score the run."""

    def train(tracker: str) -> Path:
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
        evaluate_run(run, EvalConfig(suites=("embedded-pairs",), max_pairs=4), progress=False)
        return run

    return train


@pytest.mark.ci
def test_tensorboard_shows_one_run(killed_and_resumed):
    run = killed_and_resumed("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folders = {path.parent for path in run.rglob("events.out.tfevents*")}
    assert folders == {run / "logs" / "default"}
    events = EventAccumulator(str(folders.pop())).Reload()
    assert [event.step for event in events.Scalars("loss")] == STEPS
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = {line["step"]: line["loss"] for line in lines if "loss" in line}
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(list(losses.values()), rel=1e-6)
    (score,) = events.Scalars("score/embedded-pairs")
    assert 0 <= score.value <= 100
    assert score.step == 60
    assert any("config" in tag for tag in events.Tags()["tensors"])


def test_wandb_has_one_id_a_name_a_group_and_tags(killed_and_resumed, tmp_path):
    run = killed_and_resumed("wandb")
    known = tracked(load_config(run / "config.yaml", []), run)
    folders = [path for path in tmp_path.rglob("offline-run-*") if path.is_dir()]
    assert len(folders) == 3  # two sessions of the training, and the scores
    assert {re.sub(r".*-", "", path.name) for path in folders} == {known.id}
    content = b"".join(path.read_bytes() for folder in folders for path in folder.glob("run-*.wandb"))
    for text in (known.name, known.group, *known.tags, "score/embedded-pairs"):
        assert text.encode() in content, text


def test_trackio_has_one_run(killed_and_resumed, tmp_path):
    run = killed_and_resumed("trackio")
    known = tracked(load_config(run / "config.yaml", []), run)
    script = (
        "import json, trackio; from trackio.sqlite_storage import SQLiteStorage as S; "
        "runs = S.get_runs('default'); print(json.dumps([runs, S.get_logs('default', runs[0])]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    runs, logs = json.loads(done.stdout.splitlines()[-1])
    assert runs == [f"{known.name}-{known.id}"]
    logged = {entry["step"] for entry in logs if "loss" in entry}
    assert logged >= {step for step in STEPS if step > 20}
    assert logged <= set(STEPS)  # what trackio had not written when the run was killed is lost
    assert any("score/embedded-pairs" in entry for entry in logs)


@pytest.mark.parametrize("tracker", ["tensorboard", "wandb", "trackio"])
def test_a_tracker_changes_no_run(tracker: str):
    plain, other = load_config(None, TINY), load_config(None, ["--tracker", tracker, *TINY])
    assert config_hash(plain) == config_hash(other)


def test_ids_last_as_long_as_the_run_s_folder(tmp_path: Path):
    config = load_config(None, [])
    first = tracked(config, tmp_path / "seed1-0a1b2c3d")
    assert tracked(config, tmp_path / "seed1-0a1b2c3d") == first
    assert tracked(config, tmp_path / "seed2-0a1b2c3d").id != first.id
    (tmp_path / "seed1-0a1b2c3d" / "logs" / "tracker.json").write_text("{")
    assert tracked(config, tmp_path / "seed1-0a1b2c3d").id != first.id
    assert first.name == "gpt_neo/gelu/seed1-0a1b2c3d"
    assert first.group == "gpt_neo/gelu"


def test_a_tracker_that_does_not_start_is_one_line(tmp_path, monkeypatch, environment):
    if importlib.util.find_spec("tensorboard") is None:
        pytest.skip("needs tensorboard: pip install tensorboard")
    from pretrain.training.train import train

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


def test_scores_that_cannot_be_sent_are_kept_and_told(tmp_path, environment, capsys, make_run):
    if importlib.util.find_spec("tensorboard") is None:
        pytest.skip("needs tensorboard: pip install tensorboard")
    run = make_run("gpt_neo")
    text = (run / "config.yaml").read_text()
    assert "tracker: none" in text
    (run / "config.yaml").write_text(text.replace("tracker: none", "tracker: tensorboard"))
    tracked(load_config(run / "config.yaml", []), run)
    study = next(line.split()[-1] for line in text.splitlines() if line.strip().startswith("study:"))
    (run / "logs" / study).write_text("a file where a folder should be")
    rows = evaluate_run(run, EvalConfig(suites=("embedded-pairs",), max_pairs=4))
    assert len(rows)
    assert "scores are not in tensorboard" in capsys.readouterr().err
