"""A job's file that was damaged runs nothing."""

from __future__ import annotations

import contextlib
import pickle
from pathlib import Path

import cloudpickle
import pytest
from submitit.helpers import DelayedSubmission

from slurm.queue.sealed import Sealed

RAN: list[str] = []


class Job:
    def __init__(self, words: str) -> None:
        self.words = words

    def __call__(self) -> None:
        RAN.append(self.words)


def test_what_was_submitted_runs(tmp_path: Path) -> None:
    RAN.clear()
    DelayedSubmission(Sealed(Job("seed 1"))).dump(tmp_path / "job.pkl")
    DelayedSubmission.load(tmp_path / "job.pkl").result()
    assert RAN == ["seed 1"]
    Sealed(Job("seed 2")).checkpoint().result()
    assert RAN == ["seed 1", "seed 2"]


def is_refused(job: Sealed) -> bool:
    try:
        job()
    except SystemExit:
        return True
    return False


def test_no_flipped_bit_runs_anything_else() -> None:
    """Every bit of the file in turn: it cannot be read, or says so, or runs what was submitted."""
    content = cloudpickle.dumps(Sealed(Job("seed 1")))
    RAN.clear()
    refused = 0
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(Exception):
            job = pickle.loads(bytes(damaged))
            if isinstance(job, Sealed):
                refused += is_refused(job)
    assert set(RAN) <= {"seed 1"}
    assert refused > 8 * len(b"seed 1")


def test_it_says_so_in_one_line() -> None:
    job = Sealed(Job("seed 1"))
    job.content = job.content.replace(b"seed 1", b"seed 3")
    with pytest.raises(SystemExit, match="this job's file is damaged, so it runs nothing"):
        job()
