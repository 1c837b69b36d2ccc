"""A small study from one command to its report, as a user runs it, and what may come in between."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from slurm.cell_state import read_state
from slurm.commands import study_status as status
from slurm.study.study import load_study
from slurm.worker import run_cells

WriteStudy = Callable[..., Path]
COMMAND = [sys.executable, "-m", "ffn_ablations", "study"]


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, words)], capture_output=True, text=True, timeout=280)


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def start(study: Path, *words: object, in_background: bool = False) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own; returns when a cell of its study trains."""
    called = [*COMMAND, *map(str, words)]
    if in_background:  # of a script: its shell lets it ignore SIGINT
        called = ["sh", "-c", f"trap '' INT; exec {shlex.join(called)}"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(called, start_new_session=True, **quiet)
    wait_until(lambda: process.poll() is not None or list(study.glob("*/*/seed*/metrics.jsonl")))
    return process


def members(session: int) -> list[str]:
    """The processes of a session that are left, by their numbers."""
    found = subprocess.run(["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True)
    return found.stdout.split()


@pytest.mark.ci
def test_a_study_arrives_at_its_report_and_repeats_nothing(
    tmp_path: Path,
    write_study: WriteStudy,
    run_study: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, study = write_study(tmp_path), tmp_path / "runs" / "study"
    assert run_study(file, "--dry-run") == 0
    assert "4 cells" in capsys.readouterr().out
    assert not study.exists()

    assert run_study(file) == 0
    report = Path(capsys.readouterr().out.splitlines()[-1])
    assert report == study / "report" / "report.md"
    tables = sorted(study.glob("*/*/seed*/eval/rows.parquet"))
    assert len(tables) == 4
    rows = pd.concat(map(pd.read_parquet, tables))
    assert not rows.duplicated(["run_id", "benchmark", "task", "metric"]).any()
    # Every verdict is about the difference of the means of what the runs keep.
    means = rows.groupby(["variant", "run_id"])["score"].mean().groupby("variant").mean()
    numbers = json.loads((study / "report" / "report.json").read_text())
    (pairs,) = (each for each in numbers["comparisons"] if each["benchmark"] == "embedded-pairs")
    assert pairs["contrast"] == "relu - gelu"
    assert pairs["estimate"] == pytest.approx(means["relu"] - means["gelu"])
    assert pairs["verdict"] in report.read_text()
    written = {path: path.stat().st_mtime_ns for path in study.glob("*/*/seed*/**/*") if path.is_file()}

    assert run_study(file, "--no-report") == 0
    assert "4 done" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in written} == written
    status([str(study)])
    assert capsys.readouterr().out.splitlines()[-1] == "4 cells: 4 done"


@pytest.mark.slow
@pytest.mark.parametrize("in_background", [False, True])
def test_a_cancelled_study_saves_and_continues(
    tmp_path: Path, write_study: WriteStudy, in_background: bool
) -> None:
    file, study = write_study(tmp_path), tmp_path / "runs" / "study"
    args = ("run", file, "--workers", 1, "--no-report")
    process = start(study, *args, in_background=in_background)
    second = run(*args)
    assert second.returncode == 2
    assert "so nothing was submitted" in second.stderr
    cancelled = run("cancel", file)
    assert cancelled.stdout.strip() == f"cancelled: process {process.pid}"
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    wait_until(lambda: not members(process.pid), 60)
    assert "nothing of this study" in run("cancel", file).stdout
    again = run("run", file, "--cells-per-job", 2)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "4 of 4 cells done" in again.stdout


def test_a_diverged_cell_is_failed_and_not_trained_again(
    tmp_path: Path, write_study: WriteStudy, capfd: pytest.CaptureFixture[str]
) -> None:
    diverging = {"optim": {"max_steps": 20, "learning_rate": 50.0}}
    study = load_study(write_study(tmp_path, seeds=[1], config=diverging))
    (cell,) = (cell for cell in study.cells if "/gelu/" in cell.run_id)
    for attempt in (1, 2):
        run_cells([cell])
        state = read_state(study.folder, cell.run_id)
        assert (state.name, state.attempts) == ("failed", attempt)
        assert re.search(
            r"the loss is \S+ and had to stay below 2\d\.\d+, with .* at step \d+; lower --opt", state.error
        )
    assert (cell.run_dir / "FAILED").is_file()
    assert "or remove" in state.error
    assert capfd.readouterr().out.count("device  ") == 1
    study.write()
    status([str(study.folder)])
    assert "failed" in (shown := capfd.readouterr().out)
    assert "had to stay below" in shown
