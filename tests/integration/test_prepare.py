"""A corpus 20 times as large, prepared in a process of its own, takes no more memory."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
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
