"""Trainings as a user starts them: two processes that are told to stop, trackers, and a large corpus."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from base.errors import UsageError
from pretrain.config import ResolvedConfig
from pretrain.resolution import load_config
from pretrain.run.run_folder import config_hash, run_dir
from pretrain.training.training_run import train
from tests.interrupted import train_until


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start Python in a folder, and in a session of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    return subprocess.Popen(
        [sys.executable, *words], cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.mark.slow
def test_of_two_processes_one_told_to_stop_ends_both_with_a_checkpoint(repository, tmp_path):
    flags = ["--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"]
    flags += ["--model.hidden-size", "48", "--model.intermediate-size", "64", "--optim.max-steps", "400"]
    flags += ["--train.save-steps", "1000", "--train.batch-size", "8", "--train.no-torch-compile"]
    flags += ["--runs-dir", str(tmp_path), "--run-name", "two"]
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "pretrain/train.py", *flags]
    path = tmp_path / "default" / "gpt_neo" / "gelu" / "two"

    def finished(process: subprocess.Popen[str]) -> str:
        try:
            return process.communicate(timeout=240)[0]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    first = start(repository, *launch)
    deadline = time.monotonic() + 120
    while not (path / "metrics.jsonl").exists():
        assert first.poll() is None, first.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    workers = psutil.Process(first.pid).children(recursive=True)
    lock = str(path / ".lock")
    (writer,) = (worker for worker in workers if lock in [file.path for file in worker.open_files()])
    writer.send_signal(signal.SIGTERM)
    assert "stopped by SIGTERM after step" in finished(first)
    (saved,) = path.glob("checkpoints/*")
    second = start(repository, *launch)
    out = finished(second)
    assert second.returncode == 0, out
    assert f"continued at step {int(saved.name.removeprefix('step_'))}" in out
    assert (path / "COMPLETED").exists()


@pytest.fixture
def config(tmp_path: Path) -> ResolvedConfig:
    flags = ["--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"]
    flags += ["--model.hidden-size", "16", "--model.intermediate-size", "16", "--train.no-torch-compile"]
    flags += ["--optim.max-steps", "20", "--train.save-steps", "8", "--train.logging-steps", "4"]
    flags += ["--train.eval-steps", "20", "--train.batch-size", "4", "--runs-dir", str(tmp_path)]
    return load_config(None, [*flags, "--tracker", "tensorboard"])


@pytest.mark.ci
def test_tensorboard_has_every_line_once_after_a_kill(config: ResolvedConfig) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train_until(14, config)  # after a checkpoint, and after lines behind it
    run = train(config)
    events = EventAccumulator(str(run / "logs" / "default")).Reload()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for name in ("loss", "learning_rate", "grad_norm", "eval_loss"):
        expected = {line["step"]: line[name] for line in lines if name in line}
        scalars = events.Scalars(name)
        assert [event.step for event in scalars] == list(expected)
        assert [event.value for event in scalars] == pytest.approx(list(expected.values()), rel=1e-6)
    assert [event.step for event in events.Scalars("loss")] == [4, 8, 12, 16, 20]


@pytest.mark.parametrize("tracker", ["none", "wandb", "trackio"])
def test_a_tracker_changes_no_run(config: ResolvedConfig, tracker: str) -> None:
    others = config.train.model_copy(update={"tracker": tracker})
    assert config_hash(config.model_copy(update={"train": others})) == config_hash(config)


def test_a_tracker_that_does_not_start_is_one_line(config: ResolvedConfig) -> None:
    logs = run_dir(config) / "logs"
    logs.mkdir(parents=True)
    (logs / "default").write_text("a file where a folder should be")
    with pytest.raises(UsageError, match=r"tracker tensorboard does not start: .*metrics.jsonl has every"):
        train(config)


SCRIPT = """
import sys
from pretrain.data import prepare as data
from pretrain.data import tokenizer
from pretrain.resolution import load_config

shard_characters, window_tokens, *flags = sys.argv[1:]
tokenizer.SHARD_CHARACTERS, data.WINDOW_TOKENS = int(shard_characters), int(window_tokens)
data.prepare_data(load_config(None, flags))
# Of this process alone: a child's getrusage() begins with what its parent held.
print("peak kB", open("/proc/self/status").read().partition("VmHWM:")[2].split()[0])
"""


def write_corpus(folder: Path, num_stories: int, times: int) -> list[Path]:
    """Stories of random words from a small vocabulary; the second file holds some to validate on."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(2000)]
    files = [folder / "train.jsonl.gz", folder / "validation.jsonl.gz"]
    for path, count in zip(files, (num_stories, 20), strict=True):
        with gzip.open(path, "wt", compresslevel=1) as file:
            for _ in range(count):
                file.write(json.dumps({"text": " ".join(rng.choices(words, k=rng.randint(60, 300)))}) + "\n")
    files[0].write_bytes(files[0].read_bytes() * times)  # gzip files may be joined
    return files


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_corpus_20_times_as_large_takes_no_more_memory(repository: Path, tmp_path: Path) -> None:
    """0.9 MB of text, then 19 MB, in shards and windows that are small beside both."""
    peaks = []
    for times in (1, 20):
        corpus, held_out = write_corpus(tmp_path, 800, times)
        flags = ["--data.source", "files", "--data.train-files", str(corpus), "--data.vocab-size", "2000"]
        flags += ["--data.validation-files", str(held_out), "--runs-dir", str(tmp_path / f"runs-{times}")]
        command = [sys.executable, "-c", SCRIPT, "100000", "25000", *flags]
        done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=1200)
        assert done.returncode == 0, done.stderr
        assert f"packed {800 * times:,} train documents" in done.stdout
        peaks.append(int(done.stdout.rpartition("peak kB")[2]) / 1024)
    assert peaks[1] < peaks[0] + 8, peaks
