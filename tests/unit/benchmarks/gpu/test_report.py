"""The report survives whatever its parts do; its own parts run on a CPU in a slow test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from base.errors import UsageError
from benchmarks.gpu import report
from benchmarks.gpu.report import Part, main, without_progress, write_report


def test_a_failing_part_is_told_and_the_next_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fails = tmp_path / "fails.py"
    fails.write_text("print('before'); raise SystemExit(3)")
    sleeps = tmp_path / "sleeps.py"
    sleeps.write_text("import time; print('asleep', flush=True); time.sleep(60)")
    works = tmp_path / "works.py"
    works.write_text("print('| a | b |')")
    parts = [
        Part("Fails", ("fails",), 60),
        Part("Sleeps", ("sleeps",), 2),
        Part("Absent", ("works",), 60, (tmp_path / "nowhere",)),
        Part("Works", ("works",), 60),
    ]
    path = tmp_path / "report.md"
    assert write_report(parts, path, "cpu", ["--device", "cpu"]) == 2
    text = path.read_text()
    assert "## Fails: FAILED with status 3\n" in text
    assert "before" in text
    assert "## Sleeps: FAILED: ended after 2 s\n" in text
    assert "asleep" in text
    assert f"## Absent: left out: no {tmp_path / 'nowhere'}\n" in text
    assert "## Works: done\n" in text
    assert text.rindex("\n| a | b |\n") > text.index("## Works")
    assert "2 of 4 parts failed: Fails, Sleeps; " in text
    printed = capsys.readouterr().out
    assert "[3/4] Absent ... left out" in printed


def test_the_heading_says_the_versions(tmp_path):
    path = tmp_path / "report.md"
    write_report([], path, "cpu", [])
    text = path.read_text()
    assert f"torch {torch.__version__}" in text
    assert str(Path.home()) not in text
    assert "no part failed" in text


def test_lines_that_replace_themselves_are_shown_as_they_end():
    assert without_progress("\rround 1\rround 2\n| a |\r\nplain") == "round 2\n| a |\nplain"


def test_names_of_the_machine_are_left_out(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    text = report.without_names(f"{report.ROOT}/benchmarks/ffn.py, /home/ann/.cache")
    assert text == "./benchmarks/ffn.py, ~/.cache"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_what_can_be_had(tmp_path):
    with pytest.raises(UsageError, match=r"there is no CUDA GPU here; --prediction-only"):
        main(["--out", str(tmp_path / "report.md")])
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_whole_report_runs_on_a_cpu(tmp_path):
    """With the least sizes, through every command that a GPU will run."""
    path = tmp_path / "gpu-report.md"
    command = [sys.executable, "-m", "benchmarks.gpu.report", "--device", "cpu", "--quick"]
    ended = subprocess.run([*command, "--out", str(path)], cwd=report.ROOT, capture_output=True, text=True)
    text = path.read_text()
    assert ended.returncode == 0, text[-5000:]
    assert "FAILED" not in text
