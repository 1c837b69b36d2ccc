"""Commands on a full disk and on a read-only one, with real mounts: one line, and no number changes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from base.errors import ADVICE
from tests.processes import run_command

TINY = [
    *("--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"),
    *("--model.hidden-size", "16", "--model.intermediate-size", "32", "--model.num-attention-heads", "2"),
    *("--optim.max-steps", "4", "--train.save-steps", "2", "--train.logging-steps", "1"),
    *("--train.batch-size", "4", "--train.no-torch-compile", "--study", "s"),
]
ROOMY = "size=64m"
"""More than everything below takes."""


def train(runs: Path, ffn: str = "gelu") -> tuple[str, ...]:
    """The command that trains one run."""
    return ("pretrain.train", *TINY, "--runs-dir", str(runs), "--ffn", ffn, "--run-name", "r")


def score(place: Path, pairs: int = 4) -> tuple[str, ...]:
    """The command that scores a run, or the runs of a study."""
    flags = ("--suites", "embedded-pairs", "--max-pairs", str(pairs), "--workers", "1")
    return ("eval", str(place), *flags)


def commands(runs: Path) -> dict[str, tuple[str, ...]]:
    """What a user types, in order: two trainings, their evaluation and the report."""
    trained = {f"train {ffn}": train(runs, ffn) for ffn in ("gelu", "relu")}
    return {**trained, "eval": score(runs / "s"), "report": ("report", f"{runs}/s", "--out", f"{runs}/out")}


def result(runs: Path) -> dict[str, object]:
    """Everything that stands in a report: weights and scores."""
    weights = sorted(runs.glob("s/*/*/r/model/model.safetensors"))
    rows = [pd.read_parquet(path) for path in sorted(runs.glob("s/*/*/r/eval/rows.parquet"))]
    report = (runs / "out" / "tables" / "comparisons.csv").read_text()
    hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in weights]
    return {"weights": hashes, "rows": pd.concat(rows).to_csv(index=False), "report": report}


@pytest.fixture(scope="module")
def undisturbed_runs(tmp_path_factory) -> Path:
    """A study on a disk with room."""
    runs = tmp_path_factory.mktemp("undisturbed") / "runs"
    for command in commands(runs).values():
        done = run_command(*command)
        assert done.returncode == 0, done.stderr
    return runs


def assert_one_line(done: subprocess.CompletedProcess[str], words: str) -> None:
    """It ended with 2, and told in one line that begins with ``error:`` what is wrong."""
    assert "Traceback" not in done.stderr, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (done.returncode, len(errors)) == (2, 1), done.stderr
    assert words in errors[0], done.stderr


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_costs_nothing(undisturbed_runs, tmp_path, mount):
    runs = tmp_path / "runs"
    total = sum(path.stat().st_blocks for path in undisturbed_runs.rglob("*")) // 2
    mount(runs, f"size={round(total * 0.55)}k")
    failed = []
    for name, command in commands(runs).items():
        done = run_command(*command)
        if done.returncode:
            assert_one_line(done, f"No space left on device; {ADVICE}")
            assert str(runs) in done.stderr
            failed.append(name)
            mount(runs, ROOMY)
            done = run_command(*command)
        assert done.returncode == 0, (name, done.stderr)
    assert failed
    assert result(runs) == result(undisturbed_runs)
    assert not [*runs.rglob("*.tmp-*"), *runs.rglob("*.broken")]


@pytest.mark.slow
def test_a_read_only_archive_is_read_and_what_would_write_says_so(undisturbed_runs, tmp_path, mount):
    runs = tmp_path / "runs"
    mount(runs, ROOMY)
    shutil.copytree(undisturbed_runs, runs, dirs_exist_ok=True)
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    mount(runs, "ro")
    reading = {
        "is finished; nothing to do": train(runs),
        "token budget": (*train(runs, "silu"), "--dry-run"),
        "report.md": ("report", f"{runs}/s", "--out", str(tmp_path / "elsewhere")),
    }
    for words, command in reading.items():
        done = run_command(*command)
        assert (done.returncode, words in done.stdout) == (0, True), (command, done.stdout, done.stderr)
    other_texts = (*train(runs, "silu"), "--data.validation-fraction", "0.1")
    for command in (train(runs, "silu"), other_texts, score(runs / "s/gpt_neo/gelu/r", 5)):
        assert_one_line(run_command(*command), "Read-only file system")
    assert_one_line(run_command(*commands(runs)["report"]), "Read-only file system")
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before


def test_places_that_are_no_folders_are_one_line(tmp_path):
    file = tmp_path / "file"
    file.touch()
    cases = {
        f"{file} is a file, and --runs-dir {file} must be a folder": train(file),
        f"{file} is a file, and --runs-dir {file}/runs must be a folder": train(file / "runs"),
        ": File name too long; mend that or name another place": train(tmp_path / ("x" * 300)),
    }
    for words, command in cases.items():
        assert_one_line(run_command(*command), words)
    assert file.read_bytes() == b""


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that cannot be read")
def test_a_file_that_a_disk_cannot_read_is_one_line(tmp_path):
    """The memory of a process is a file whose first bytes are an input/output error."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.symlink_to("/proc/self/mem")
    flags = ("--data.source", "files", "--data.train-files", str(corpus))
    done = run_command(*train(tmp_path / "runs"), *flags)
    assert_one_line(done, f"{corpus}: Input/output error")
    assert not (tmp_path / "runs").exists()
