"""A study whose worker is told to stop, and one whose cell diverges."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

import slurm.commands
from slurm.cell_state import read_state
from slurm.study.study import load_study
from slurm.worker import run_cells


@pytest.fixture
def study_file(tmp_path: Path, repository: Path) -> Path:
    content = {
        "name": "stopped",
        "families": {"gpt_neo": str(repository / "configs" / "tiny.yaml")},
        "variants": ["gelu"],
        "seeds": [1],
        "config": {
            "model": {"hidden_size": 32, "intermediate_size": 32},
            "data": {"num_stories": 200, "vocab_size": 400},
            "optim": {"max_steps": 1500},
            "train": {"save_steps": None, "save_minutes": None, "logging_steps": 1, "torch_compile": False},
        },
        "evaluation": {"suites": ["embedded-pairs"], "max_pairs": 4},
    }
    path = tmp_path / "stopped.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def study_command(study_file: Path, runs: Path) -> list[str]:
    words = ("study", "run", str(study_file), "--runs-dir", str(runs), "--no-report")
    return [sys.executable, "-m", "ffn_ablations", *words]


def start(command: Sequence[str], runs: Path) -> tuple[subprocess.Popen[str], int]:
    """Start the study, and wait until its cell trains; returns its process and the id of the worker's."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 120
    while not list(runs.glob("stopped/*/*/seed*/metrics.jsonl")):
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline, "no cell started training"
        time.sleep(0.01)
    (state_file,) = runs.glob("stopped/cells/*.json")
    return process, json.loads(state_file.read_text())["pid"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR2"])
def test_a_worker_told_to_stop_saves_and_the_study_continues_from_there(study_file, tmp_path, name):
    runs = tmp_path / "runs"
    command = study_command(study_file, runs)
    process, worker = start([*command, "--workers", "1"], runs)
    os.kill(worker, signal.Signals[name])
    out, _ = process.communicate(timeout=240)
    again = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert again.returncode == 0, out + again.stdout + again.stderr
    (path,) = runs.glob("stopped/*/*/seed*")
    sessions = json.loads((path / "provenance.json").read_text())["sessions"]
    # No checkpoint was due by itself: it was made for the signal.
    assert [session["resumed_from_step"] > 0 for session in sessions] == [False, True]
    assert (path / "COMPLETED").exists()
    logs = "".join(file.read_text() for file in runs.glob("stopped/jobs/*.log"))
    assert f"stopped by {name} after step" in logs


@pytest.mark.ci
def test_a_study_in_the_background_of_a_script_is_cancelled_with_its_workers(study_file, tmp_path):
    """Such a command ignores SIGINT; its workers are told by SIGTERM."""
    runs = tmp_path / "runs"
    command = study_command(study_file, runs)
    process, worker = start(["sh", "-c", 'trap "" INT; exec "$0" "$@"', *command, "--workers", "1"], runs)
    process.terminate()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while is_alive(worker):
        assert time.monotonic() < deadline, "the worker goes on"
        time.sleep(0.1)
    assert not list(runs.glob("stopped/*/*/seed*/COMPLETED"))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_diverged_cell_is_failed_and_not_trained_again(study_file, tmp_path, capfd):
    content = yaml.safe_load(study_file.read_text())
    content["config"]["optim"] = {"max_steps": 20, "learning_rate": 50.0}
    study_file.write_text(yaml.safe_dump(content), encoding="utf-8")
    study = load_study(study_file, {"output": {"runs_dir": str(tmp_path / "runs")}})
    (cell,) = study.cells
    for attempt in (1, 2):
        run_cells(study.cells)
        state = read_state(study.folder, cell.run_id)
        assert (state.name, state.attempts) == ("failed", attempt)
        assert re.search(
            r"the loss is \S+ and had to stay below 2\d\.\d+, with .* at step \d+; lower --opt", state.error
        )
    assert (cell.run_dir / "FAILED").is_file()
    assert "or remove" in state.error
    assert capfd.readouterr().out.count("device  ") == 1
    study.write()
    slurm.commands.study_status([str(study.folder)])
    assert "failed" in (shown := capfd.readouterr().out)
    assert "had to stay below" in shown
