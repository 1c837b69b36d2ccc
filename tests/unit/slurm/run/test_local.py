"""What a worker of a study on this machine is started with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

from slurm.run.local import executor_of


@pytest.mark.ci
@pytest.mark.parametrize(
    ("given", "count", "seen"),
    [
        ("2,3", 2, ["2", "3", "2"]),
        ("GPU-8932f937,MIG-GPU-27bd/1/0", 2, ["GPU-8932f937", "MIG-GPU-27bd/1/0"]),
        (None, 2, ["0", "1"]),
        ("", 0, [""]),
    ],
)
def test_workers_get_the_gpus_that_their_command_may_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str | None, count: int, seen: list[str]
) -> None:
    """Each in a process of its own, whose environment is read back from there."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    if given is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    jobs = [
        executor_of(tmp_path, slot).submit(os.getenv, "CUDA_VISIBLE_DEVICES") for slot in range(len(seen))
    ]
    assert [job.result() for job in jobs] == seen
    assert executor_of(tmp_path, 0).submit(eval, "__import__('sys').executable").result() == sys.executable
