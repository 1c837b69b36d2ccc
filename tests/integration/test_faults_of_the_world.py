"""Every command on a full disk and on a read-only one, with real mounts: one line, and no number changes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
import yaml

from base.errors import ADVICE
from tests.processes import run_command

KIB = 1024
ROOMY_KIB = 64 * KIB
"""More than everything below takes."""

TINY = [
    *("--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"),
    *("--model.hidden-size", "16", "--model.intermediate-size", "32", "--model.num-attention-heads", "2"),
    *("--optim.max-steps", "4", "--train.save-steps", "2", "--train.logging-steps", "1"),
    *("--train.batch-size", "4", "--train.no-torch-compile", "--study", "s"),
]
Commands = dict[str, tuple[str, ...]]
Mount = Callable[[Path, str], None]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Put a memory disk with some options in a folder's place, or give the one that is there others."""
    mounted: list[Path] = []

    def _mount(folder: Path, options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        kind = ["-o", f"remount,{options}"] if folder in mounted else ["-t", "tmpfs", "-o", options, "tmpfs"]
        done = subprocess.run(["mount", *kind, str(folder)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        mounted.append(folder)

    yield _mount
    for folder in set(mounted):
        subprocess.run(["umount", str(folder)], check=True)


def train(runs: Path, ffn: str = "gelu") -> tuple[str, ...]:
    """The command that trains one run."""
    return ("pretrain.train", *TINY, "--runs-dir", str(runs), "--ffn", ffn, "--run-name", "r")


def commands(runs: Path) -> Commands:
    """What a user types, in order: two trainings, their evaluation and the report."""
    trained = {f"train {ffn}": train(runs, ffn) for ffn in ("gelu", "relu")}
    study = str(runs / "s")
    scored = ("eval", study, "--suites", "embedded-pairs", "--max-pairs", "4", "--workers", "1")
    return {**trained, "eval": scored, "report": ("report", study, "--out", f"{study}/report")}


def result(runs: Path) -> dict[str, object]:
    """Everything that stands in a report: weights and scores."""
    weights = sorted(runs.glob("s/*/*/r/model/model.safetensors"))
    rows = [pd.read_parquet(path) for path in sorted(runs.glob("s/*/*/r/eval/rows.parquet"))]
    report = (runs / "s" / "report" / "tables" / "comparisons.csv").read_text()
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


@pytest.fixture(scope="module")
def undisturbed(undisturbed_runs) -> tuple[dict[str, object], int]:
    """What comes out with room, and the KiB that it takes."""
    size = sum(path.stat().st_blocks for path in undisturbed_runs.rglob("*")) // 2
    return result(undisturbed_runs), size


def assert_one_line(done: subprocess.CompletedProcess[str], words: str) -> None:
    """It ended with 2, and told in one line that begins with ``error:`` what is wrong."""
    assert "Traceback" not in done.stderr, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (done.returncode, len(errors)) == (2, 1), done.stderr
    assert words in errors[0], done.stderr


@pytest.mark.parametrize("share", [0.55, pytest.param(0.3, marks=pytest.mark.slow)])
@pytest.mark.ci
def test_a_full_disk_is_one_line_and_costs_nothing(undisturbed, tmp_path, mount, share):
    expected, total = undisturbed
    runs = tmp_path / "runs"
    mount(runs, f"size={round(total * share)}k")
    failed = []
    for name, command in commands(runs).items():
        done = run_command(*command)
        if done.returncode:
            assert_one_line(done, f"No space left on device; {ADVICE}")
            assert str(runs) in done.stderr
            failed.append(name)
            mount(runs, f"size={ROOMY_KIB}k")
            done = run_command(*command)
        assert done.returncode == 0, (name, done.stderr)
    assert failed
    assert result(runs) == expected
    assert not [*runs.rglob("*.tmp-*"), *runs.rglob("*.broken")]


@pytest.mark.ci
def test_a_read_only_archive_is_read_and_what_would_write_says_so(undisturbed_runs, tmp_path, mount):
    runs = tmp_path / "runs"
    mount(runs, f"size={ROOMY_KIB}k")
    shutil.copytree(undisturbed_runs, runs, dirs_exist_ok=True)
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    mount(runs, "ro")
    known = commands(runs)
    reading = {
        "is finished; nothing to do": train(runs),
        "token budget": (*train(runs, "silu"), "--dry-run"),
        "report.md": (*known["report"][:-1], str(tmp_path / "elsewhere")),
    }
    for words, command in reading.items():
        done = run_command(*command)
        assert (done.returncode, words in done.stdout) == (0, True), (command, done.stdout, done.stderr)
    writing = [
        train(runs, "silu"),
        (*train(runs, "silu"), "--data.validation-fraction", "0.1"),
        (
            "eval",
            f"{runs}/s/gpt_neo/gelu/r",
            "--suites",
            "embedded-pairs",
            "--max-pairs",
            "5",
            "--workers",
            "1",
        ),
        known["report"],
    ]
    for command in writing:
        assert_one_line(run_command(*command), "Read-only file system")
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before


def test_places_that_are_no_folders_are_one_line(tmp_path):
    file, long = tmp_path / "file", "x" * 300
    file.touch()
    cases = {
        f"{file} is a file, and --runs-dir {file} must be a folder": train(file),
        f"{file} is a file, and --runs-dir {file}/runs must be a folder": train(file / "runs"),
        ": File name too long; mend that or name another place": train(tmp_path / long),
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


@pytest.mark.slow
@pytest.mark.parametrize("kib", [64, 2600])
def test_a_study_on_a_full_disk_is_continued_by_the_same_command(repository, tmp_path, mount, kib):
    runs, file = tmp_path / "runs", tmp_path / "s.yaml"
    content = {
        "name": "s",
        "families": {"gpt_neo": str(repository / "configs" / "tiny.yaml")},
        "variants": ["gelu", "relu"],
        "seeds": [1],
        "config": {
            "model": {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2},
            "data": {"num_stories": 200, "vocab_size": 400},
            "optim": {"max_steps": 4},
            "train": {"save_steps": 2, "logging_steps": 1, "torch_compile": False},
        },
        "evaluation": {"suites": ["embedded-pairs"], "max_pairs": 4},
    }
    file.write_text(yaml.safe_dump(content))
    command = ("slurm.submit", file, "--runs-dir", runs, "--cells-per-job", 2)
    mount(runs, f"size={kib}k")
    done = run_command(*command)
    assert "Traceback" not in done.stdout + done.stderr
    if done.returncode == 2:
        assert_one_line(done, f"No space left on device; {ADVICE}")
    else:  # the cells tell of it, each the same
        assert (done.returncode, done.stdout.count("not done: ")) == (1, 1), done.stdout + done.stderr
        assert "No space left on device" in done.stdout
    mount(runs, f"size={ROOMY_KIB}k")
    done = run_command(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (runs / "s" / "report" / "report.md").is_file()
