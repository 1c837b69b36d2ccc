"""What is told of the cells that are not done."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from slurm.cell_state import CellState
from slurm.todo import describe_unfinished


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
