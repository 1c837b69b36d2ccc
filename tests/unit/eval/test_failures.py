"""Equal errors are one line."""

from __future__ import annotations

from pathlib import Path

from base.errors import UsageError
from eval.evaluate import Failure, failure_lines


def failures(num_runs: int, num_tasks: int, words: str = "data/blimp does not exist") -> list[Failure]:
    return [
        Failure(Path(f"runs/{run}"), f"blimp/{task}", UsageError(words))
        for run in range(num_runs)
        for task in range(num_tasks)
    ]


def test_a_missing_data_set_is_one_line() -> None:
    line = "runs/0 blimp/0: data/blimp does not exist"
    assert failure_lines(failures(2, 67)) == [f"{line} (and so of 133 more)"]
    assert failure_lines(failures(1, 1)) == [line]


def test_what_names_its_own_task_is_one_line_too() -> None:
    missing = [
        Failure(Path("runs/0"), f"blimp/{task}", UsageError(f"cannot load nyu/blimp ({task}) from the hub"))
        for task in ("passive", "binding", "island")
    ]
    line = "runs/0 blimp/passive: cannot load nyu/blimp (passive) from the hub (and so of 2 more)"
    assert failure_lines(missing) == [line]


def test_what_differs_keeps_its_own_line() -> None:
    alone = failures(1, 1, "no memory")
    assert failure_lines([*failures(2, 2), *alone]) == [
        "runs/0 blimp/0: data/blimp does not exist (and so of 3 more)",
        "runs/0 blimp/0: no memory",
    ]
    whole = [Failure(Path(f"runs/{n}"), None, UsageError(f"runs/{n}: has no model")) for n in range(2)]
    assert failure_lines(whole) == ["runs/0: has no model", "runs/1: has no model"]
