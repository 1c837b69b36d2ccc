"""Who may submit a study, and what is told of the cells that are not done."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from base.errors import UsageError
from slurm.cell_state import CellState
from slurm.jobs import _asking_slurm
from slurm.todo import describe_unfinished, sole_submitter


def cell(seed: int) -> Any:
    run_id = f"gpt_neo/gelu/seed{seed}-abc"
    return SimpleNamespace(run_id=run_id, run_dir=Path("runs/s") / run_id, label=f"gpt_neo/gelu/seed{seed}")


def test_cells_with_the_same_reason_share_a_line() -> None:
    def failed(seed: int, words: str) -> tuple[Any, CellState]:
        return cell(seed), CellState(name="failed", error=words, log=f"{seed}.log")

    same = [failed(seed, f"UsageError: {cell(seed).run_dir}: the disk is full") for seed in (1, 2, 3)]
    other = (cell(4), CellState(name="missing"))
    assert describe_unfinished([*same, other]) == [
        "not done: gpt_neo/gelu/seed1 and 2 more: failed: UsageError: runs/s/gpt_neo/gelu/seed1-abc: "
        "the disk is full (log: 1.log)",
        "not done: gpt_neo/gelu/seed4: missing (log: none)",
    ]


def test_two_commands_do_not_submit_at_once(tmp_path: Path) -> None:
    with sole_submitter(tmp_path), pytest.raises(UsageError, match="nothing was submitted"):
        sole_submitter(tmp_path).__enter__()
    with sole_submitter(tmp_path):
        pass


def test_a_job_submits_as_a_login_shell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"SLURM_JOB_ID", "SBATCH_PARTITION", "SUBMITIT_EXECUTOR", "SLURM_CONF", "HOME_OF_MINE"}
    for name in names:
        monkeypatch.setenv(name, "x")
    with _asking_slurm():
        assert names & os.environ.keys() == {"SLURM_CONF", "HOME_OF_MINE"}
    assert names <= os.environ.keys()
    refused = pytest.raises(UsageError, match="sbatch refused the jobs: no such file; check the preset")
    with refused, _asking_slurm():
        raise OSError("no such file")
