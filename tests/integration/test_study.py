"""A small study from one command to its report, as a user runs it."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.processes import run_command, words_of


@pytest.fixture
def study_file(tmp_path: Path, repository: Path) -> Path:
    base = str(repository / "configs" / "tiny.yaml")
    content = {
        "name": "smoke",
        "families": {"gpt_neo": base, "roberta": base},
        "variants": ["gelu", "kan"],
        "seeds": [1],
        "config": {
            "model": {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2},
            "data": {"num_stories": 200, "vocab_size": 400},
            "optim": {"max_steps": 4},
            "train": {"save_steps": 2, "logging_steps": 1, "torch_compile": False},
        },
        "evaluation": {"suites": ["embedded-pairs"], "max_pairs": 4},
    }
    path = tmp_path / "smoke.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def command(module: str, *args: object) -> list[str]:
    return [sys.executable, "-m", "ffn_ablations", *words_of(module), *map(str, args)]


def run(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*map(str, args)), capture_output=True, text=True, timeout=280)


def start(runs: Path, *args: object, in_background: bool = False) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own; returns when a cell of its study trains."""
    called = command(*map(str, args))
    if in_background:  # of a script: its shell lets it ignore SIGINT
        called = ["sh", "-c", f"trap '' INT; exec {shlex.join(called)}"]
    process = subprocess.Popen(
        called, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not list(runs.glob("smoke/*/*/seed*/metrics.jsonl")):
        assert time.monotonic() < deadline, "no cell started training"
        time.sleep(0.1)
    return process


def members(session: int) -> list[str]:
    """The processes of a session that are left, by their numbers."""
    found = subprocess.run(["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True)
    return found.stdout.split()


def test_a_study_arrives_at_its_report_and_repeats_nothing(study_file: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    submit = ("slurm.submit", study_file, "--runs-dir", runs, "--cells-per-job", 2)

    plan = run_command(*submit, "--dry-run")
    assert plan.returncode == 0, plan.stderr
    assert "4 cells" in plan.stdout
    assert not runs.exists()

    first = run_command(*submit)
    assert first.returncode == 0, first.stdout + first.stderr
    report = Path(first.stdout.splitlines()[-1])
    assert report.is_file()
    assert report == runs / "smoke" / "report" / "report.md"
    tables = sorted((runs / "smoke").glob("*/*/seed*/eval/rows.parquet"))
    assert len(tables) == 4
    rows = pd.concat(map(pd.read_parquet, tables))
    assert not rows.duplicated(["run_id", "benchmark", "task", "metric"]).any()
    assert set(rows.variant) == {"gelu", "kan"}
    written = {
        path: path.stat().st_mtime_ns for path in (runs / "smoke").glob("*/*/seed*/**/*") if path.is_file()
    }

    second = run_command(*submit)
    assert second.returncode == 0
    assert "4 done" in second.stdout
    assert {path: path.stat().st_mtime_ns for path in written} == written

    status = run_command("slurm.status", runs / "smoke")
    assert status.returncode == 0
    assert status.stdout.splitlines()[-1] == "4 cells: 4 done"


@pytest.mark.slow
def test_a_bad_cell_does_not_stop_the_others(study_file: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    dry = run("slurm.submit", study_file, "--runs-dir", runs, "--dry-run")
    bad = next(line.split()[-1] for line in dry.stdout.splitlines() if "gpt_neo/kan/seed1" in line)
    # A file where the run's folder should be: that cell cannot be written.
    (runs / "smoke" / bad).parent.mkdir(parents=True)
    (runs / "smoke" / bad).write_text("in the way", encoding="utf-8")

    result = run("slurm.submit", study_file, "--runs-dir", runs, "--cells-per-job", 2)
    assert result.returncode == 1
    assert "3 of 4 cells done" in result.stdout
    assert "not done: gpt_neo/kan/seed1: failed" in result.stdout
    assert Path(result.stdout.splitlines()[-1]).is_file()
    status = run("slurm.status", runs / "smoke").stdout
    assert "3 done, 1 failed" in status

    (runs / "smoke" / bad).unlink()
    left_alone = run("slurm.submit", study_file, "--runs-dir", runs, "--no-report")
    assert left_alone.returncode == 1
    assert "--retry-failed also tries what failed" in left_alone.stdout
    assert "0 cells run" in left_alone.stdout
    again = run("slurm.submit", study_file, "--runs-dir", runs, "--retry-failed")
    assert again.returncode == 0, again.stdout
    assert "4 of 4 cells done" in again.stdout


@pytest.mark.slow
@pytest.mark.parametrize("in_background", [False, True])
def test_a_cancelled_study_saves_and_continues(study_file: Path, tmp_path: Path, in_background: bool) -> None:
    runs = tmp_path / "runs"
    args = ("slurm.submit", study_file, "--runs-dir", runs, "--workers", 1, "--no-report")
    process = start(runs, *args, in_background=in_background)
    second = run(*args)
    assert second.returncode == 2
    assert "so nothing was submitted" in second.stderr
    cancelled = run("slurm.cancel", study_file, "--runs-dir", runs)
    assert cancelled.stdout.strip() == f"cancelled: process {process.pid}"
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    deadline = time.monotonic() + 60
    while group := members(process.pid):
        assert time.monotonic() < deadline, group
        time.sleep(0.1)
    assert "nothing of this study" in run("slurm.cancel", study_file, "--runs-dir", runs).stdout
    again = run("slurm.submit", study_file, "--runs-dir", runs, "--cells-per-job", 2)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "4 of 4 cells done" in again.stdout
