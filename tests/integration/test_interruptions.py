"""Runs that are killed, stopped, starved of disk or started twice, and commands on disks that fail."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import cache
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from base.errors import run_cli
from pretrain.resolution import load_config
from pretrain.training.training_run import train
from tests.cases import FEW_TASKS, first_is_fast
from tests.processes import forkserver, run_command, write_output_to

TINY = [
    *("--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"),
    *("--model.hidden-size", "48", "--model.intermediate-size", "64", "--optim.max-steps", "120"),
    *("--train.save-steps", "5", "--train.logging-steps", "4", "--train.eval-steps", "60"),
    *("--train.batch-size", "4", "--train.no-torch-compile"),
]


def start(flags: list[str], output: Path) -> ForkServerProcess:
    """Start a run in a process of its own."""
    process = forkserver().Process(target=_train, args=(flags, output))
    process.start()
    return process


def _train(flags: list[str], output: Path) -> None:
    """Train with everything printed going to a file; a user's mistake ends with 2, as in the command."""
    write_output_to(output, output)
    run_cli(lambda: train(load_config(None, flags)) and None)


def folder_of(runs_dir: Path, name: str, family: str = "gpt_neo") -> Path:
    return runs_dir / "default" / family / "gelu" / name


def whole_checkpoints(path: Path) -> list[str]:
    """Their names, which are in the order of their steps."""
    return sorted(folder.name for folder in path.glob("checkpoints/step_" + "[0-9]" * 7))


def wait_for(condition, process, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.is_alive(), f"ended early with {process.exitcode}"
        assert time.monotonic() < deadline
        time.sleep(0.001)


def finish(process, code: int = 0) -> None:
    process.join(120)
    assert process.exitcode == code


def assert_same_result(left: Path, right: Path) -> None:
    weights = [(path / "model" / "model.safetensors").read_bytes() for path in (left, right)]
    assert weights[0] == weights[1]
    assert read_metrics(left) == read_metrics(right)


def read_metrics(path: Path) -> list[dict]:
    """Metric lines without what depends on the clock."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("time_s", "tokens_per_s")} for line in lines]


@pytest.fixture(scope="module")
def undisturbed(runs_dir: Path) -> Callable[[str], Path]:
    """The run of a family that nothing happened to."""

    @cache
    def whole(family: str = "gpt_neo") -> Path:
        flags = [*TINY, "--family", family, "--runs-dir", str(runs_dir), "--run-name", "whole"]
        finish(start(flags, runs_dir / f"{family}-whole.log"))
        return folder_of(runs_dir, "whole", family)

    return whole


@pytest.mark.parametrize("family", first_is_fast(["gpt_neo", "roberta", "t5", "llama"]))
@pytest.mark.ci
def test_killed_at_random_moments_it_ends_as_one_never_killed(undisturbed, runs_dir, family):
    """Every second kill falls into the writing of a checkpoint, the others anywhere.

    The first comes before any checkpoint, perhaps. Each of the others that do not fall into a checkpoint's
    writing lets the run get further before, however slow the machine is.
    """
    moments, kills = random.Random(1), 4
    path, log = folder_of(runs_dir, "killed", family), runs_dir / f"{family}-killed.log"
    flags = [*TINY, "--family", family, "--runs-dir", str(runs_dir), "--run-name", "killed"]
    inside = 0
    log.touch()
    for number in range(kills):
        newest = max(whole_checkpoints(path), default="")
        process = start(flags, log)
        if number % 2:
            wait_for(lambda own=f"checkpoints/*.tmp-{process.pid}": list(path.glob(own)), process)
        else:
            wait_for(lambda sessions=number: log.read_text().count("folder  ") > sessions, process)
            if number:
                wait_for(lambda before=newest: max(whole_checkpoints(path), default="") > before, process)
            time.sleep(moments.uniform(0, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert not (path / "COMPLETED").exists()
        inside += bool(list(path.glob("checkpoints/*.tmp-*")))
    assert inside >= kills // 4
    finish(start(flags, log))
    assert_same_result(undisturbed(family), path)
    sessions = json.loads((path / "provenance.json").read_text())["sessions"]
    assert sessions[-1]["resumed_from_step"] > 0
    assert not list(path.glob("checkpoints/*.tmp-*"))


@pytest.mark.ci
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_is_used(undisturbed, runs_dir):
    path, log = folder_of(runs_dir, "damaged"), runs_dir / "damaged.log"
    flags = [*TINY, "--runs-dir", str(runs_dir), "--run-name", "damaged"]
    process = start(flags, log)
    wait_for(lambda: (path / "checkpoints" / "step_0000010").exists(), process)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    older, newest = (path / "checkpoints" / name for name in whole_checkpoints(path))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    finish(start(flags, log))
    said = log.read_text()
    assert f"{newest} is damaged (" in said
    assert f"the checkpoint before it is used); kept as {newest.name}.broken" in said
    assert f"continued at step {int(older.name.removeprefix('step_'))}" in said
    assert (path / "checkpoints" / f"{newest.name}.broken").is_file()
    assert_same_result(undisturbed(), path)


@pytest.mark.parametrize("name", first_is_fast(["SIGTERM", "SIGUSR2"]))
@pytest.mark.ci
def test_a_signal_ends_the_run_after_its_step_with_a_checkpoint(undisturbed, runs_dir, name):
    path, log = folder_of(runs_dir, name), runs_dir / f"{name}.log"
    # No checkpoint is due by itself: the one that there is was made for the signal.
    flags = [*TINY, "--runs-dir", str(runs_dir), "--run-name", name, "--train.save-steps", "1000"]
    process = start(flags, log)
    wait_for(lambda: (path / "metrics.jsonl").exists(), process)
    os.kill(process.pid, signal.Signals[name])
    finish(process, os.EX_TEMPFAIL)
    (saved,) = path.glob("checkpoints/*")
    step = int(saved.name.removeprefix("step_"))
    said = f"stopped by {name} after step {step} of 120; the same command continues from {saved.name}"
    assert said in log.read_text()
    finish(start(flags, log))
    assert f"continued at step {step}" in log.read_text()
    assert_same_result(undisturbed(), path)


@pytest.mark.ci
def test_of_two_processes_in_one_folder_the_second_is_refused(undisturbed, runs_dir):
    path, logs = folder_of(runs_dir, "twice"), [runs_dir / "twice-1.log", runs_dir / "twice-2.log"]
    flags = [*TINY, "--runs-dir", str(runs_dir), "--run-name", "twice"]
    first = start(flags, logs[0])
    wait_for(lambda: (path / "metrics.jsonl").exists(), first)
    os.kill(first.pid, signal.SIGSTOP)  # however slow the second is to start, the first is not over
    second = start(flags, logs[1])
    finish(second, 2)
    os.kill(first.pid, signal.SIGCONT)
    (message,) = logs[1].read_text().splitlines()
    assert message.startswith(f"error: {path}: another process trains in this folder")
    finish(first)
    assert_same_result(undisturbed(), path)


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


@pytest.mark.slow
def test_a_disk_without_room_for_checkpoints_costs_warnings_and_not_the_run(undisturbed, runs_dir, mount):
    path, log = folder_of(runs_dir, "small-disk"), runs_dir / "small-disk.log"
    checkpoint, *_ = undisturbed().glob("checkpoints/step_*")
    mount(path / "checkpoints", f"size={round(2.5 * checkpoint.stat().st_size / 1024)}k")
    finish(start([*TINY, "--runs-dir", str(runs_dir), "--run-name", "small-disk"], log))
    said = log.read_text()
    assert "a checkpoint could not be written to" in said
    assert "No space left on device" in said
    assert "training goes on and the next one is tried" in said
    assert sorted(each.name for each in path.glob("checkpoints/*")) == ["step_0000005", "step_0000010"]
    assert_same_result(undisturbed(), path)


@pytest.mark.ci
def test_a_full_disk_ends_the_run_with_one_line_and_it_continues_when_there_is_room(
    undisturbed, runs_dir, mount
):
    path, log = folder_of(runs_dir, "full-disk"), runs_dir / "full-disk.log"
    mount(path, "size=16m")
    flags = [*TINY, "--runs-dir", str(runs_dir), "--run-name", "full-disk"]
    process = start(flags, log)
    wait_for(lambda: (path / "checkpoints" / "step_0000010").exists(), process)
    os.kill(process.pid, signal.SIGSTOP)  # or it may end before the disk is full
    fill(path / "filler")
    os.kill(process.pid, signal.SIGCONT)
    finish(process, 2)
    message = log.read_text().splitlines()[-1]
    assert re.match(rf"error: {path}\S*: No space left on device; mend that or name another place", message)
    assert list(path.glob("checkpoints/step_" + "[0-9]" * 7))
    (path / "filler").unlink()
    finish(start(flags, log))
    assert re.findall(r"continued at step \d+", log.read_text())
    assert_same_result(undisturbed(), path)


def training(runs: Path, ffn: str = "gelu") -> tuple[str, ...]:
    """The command that trains one run of four steps."""
    short = ("--optim.max-steps", "4", "--train.save-steps", "2", "--study", "s", "--run-name", "r")
    return ("pretrain.train", *TINY, *short, "--runs-dir", str(runs), "--ffn", ffn)


PAIRS = ("--suites", "embedded-pairs", "--pair-tasks", *FEW_TASKS, "--workers", "1")


@pytest.fixture(scope="module")
def scored_runs(tmp_path_factory) -> Path:
    """A study on a disk with room."""
    runs = tmp_path_factory.mktemp("undisturbed") / "runs"
    score = ("eval", str(runs / "s"), *PAIRS, "--max-pairs", "4")
    for command in (training(runs), training(runs, "relu"), score):
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
def test_a_read_only_archive_is_read_and_what_would_write_says_so(scored_runs, tmp_path, mount):
    runs = tmp_path / "runs"
    mount(runs, "size=64m")
    shutil.copytree(scored_runs, runs, dirs_exist_ok=True)
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    mount(runs, "ro")
    reading = {
        "is finished; nothing to do": training(runs),
        "token budget": (*training(runs, "silu"), "--dry-run"),
        "report.md": ("report", f"{runs}/s", "--out", str(tmp_path / "elsewhere")),
    }
    for words, command in reading.items():
        done = run_command(*command)
        assert (done.returncode, words in done.stdout) == (0, True), (command, done.stdout, done.stderr)
    other_texts = (*training(runs, "silu"), "--data.validation-fraction", "0.1")
    more_pairs = ("eval", f"{runs}/s/gpt_neo/gelu/r", *PAIRS, "--max-pairs", "5")
    report = ("report", f"{runs}/s", "--out", f"{runs}/out")
    for command in (training(runs, "silu"), other_texts, more_pairs, report):
        assert_one_line(run_command(*command), "Read-only file system")
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that cannot be read")
def test_a_file_that_cannot_be_read_and_a_name_that_is_too_long_are_one_line(tmp_path):
    """The memory of a process is a file whose first bytes are an input/output error."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.symlink_to("/proc/self/mem")
    flags = ("--data.source", "files", "--data.train-files", str(corpus))
    done = run_command(*training(tmp_path / "runs"), *flags)
    assert_one_line(done, f"{corpus}: Input/output error")
    assert not (tmp_path / "runs").exists()
    done = run_command(*training(tmp_path / ("x" * 300)))
    assert_one_line(done, ": File name too long; mend that or name another place")
