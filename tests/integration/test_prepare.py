"""Preparing a corpus in processes of its own: killed, twice at once with more threads, 20 times as large."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pretrain.data import prepare as data
from pretrain.data import tokenizer
from pretrain.resolution import load_config

shard_characters, window_tokens, *flags = sys.argv[1:]
tokenizer.SHARD_CHARACTERS, data.WINDOW_TOKENS = int(shard_characters), int(window_tokens)
data.prepare_data(load_config(None, flags))
# Of this process alone: a child's getrusage() begins with what its parent held.
status = open("/proc/self/status").read() if sys.platform == "linux" else ""
print("peak kB", status.partition("VmHWM:")[2].split()[:1])
"""


@pytest.fixture
def prepare(repository):
    """Start a process that prepares a corpus, with shards and windows of the given sizes."""

    def _prepare(
        files: list[Path],
        runs: Path,
        *flags: str,
        threads: int = 1,
        sizes: tuple[int, int] = (100_000, 20_000),
    ) -> subprocess.Popen:
        train, validation = map(str, files)
        source = [
            "--data.source",
            "files",
            "--data.train-files",
            train,
            "--data.validation-files",
            validation,
        ]
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *map(str, sizes), *source, "--runs-dir", str(runs), *flags],
            cwd=repository,
            env={**os.environ, "RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return _prepare


def finish(process: subprocess.Popen) -> str:
    out, err = process.communicate(timeout=1200)
    assert process.returncode == 0, err
    return out


def write_corpus(folder: Path, num_stories: int) -> list[Path]:
    """Stories of random words from a small vocabulary; the second file holds some to validate on."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(2000)]
    files = [folder / f"{num_stories}.jsonl.gz", folder / f"{num_stories}-validation.jsonl.gz"]
    for path, count in zip(files, (num_stories, 20), strict=True):
        with gzip.open(path, "wt", compresslevel=1) as file:
            for _ in range(count):
                file.write(json.dumps({"text": " ".join(rng.choices(words, k=rng.randint(60, 300)))}) + "\n")
    return files


def contents(runs: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(runs)): path.read_bytes()
        for path in runs.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


@pytest.mark.slow
def test_killed_then_made_by_one_of_two_at_once_with_more_threads(prepare, tmp_path):
    corpus = write_corpus(tmp_path, 2000)
    finish(prepare(corpus, tmp_path / "whole"))

    runs = tmp_path / "killed"
    killed = prepare(corpus, runs)
    deadline = time.monotonic() + 120
    while not list(runs.glob(".cache/*/rows-*.partial/train.input_ids.bin")):
        assert killed.poll() is None, killed.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL

    both = [finish(process) for process in [prepare(corpus, runs, threads=2) for _ in range(2)]]
    assert sorted("packed" in out for out in both) == [False, True]
    assert not any("reading" in out for out in both)  # the tokenizer was whole
    assert contents(runs) == contents(tmp_path / "whole")


def peak_mb(out: str) -> float:
    return int("".join(filter(str.isdigit, out.rpartition("peak kB")[2]))) / 1024


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("num_stories", "sizes", "allowed_mb"),
    [
        (800, (100_000, 25_000), 8),  # 0.9 MB of text, then 19 MB
        # 41 MB of text, then 820 MB, with shards and windows as they are; measured were 608 and 649 MB.
        (35_000, (2**22, 2**23), 64),
    ],
)
def test_a_corpus_20_times_as_large_takes_no_more_memory(prepare, tmp_path, num_stories, sizes, allowed_mb):
    peaks = []
    for times in (1, 20):
        corpus = write_corpus(tmp_path, num_stories)
        corpus[0].write_bytes(corpus[0].read_bytes() * times)  # gzip files may be joined
        out = finish(prepare(corpus, tmp_path / f"runs-{times}", "--data.vocab-size", "2000", sizes=sizes))
        assert f"packed {num_stories * times:,} train documents" in out
        peaks.append(peak_mb(out))
    assert peaks[1] < peaks[0] + allowed_mb, peaks
