"""Equal errors are told in one line."""

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
    assert failure_lines(failures(2, 67)) == ["67 tasks x 2 runs: data/blimp does not exist"]
    assert failure_lines(failures(1, 67)) == ["runs/0 67 tasks: data/blimp does not exist"]
    assert failure_lines(failures(3, 1)) == ["blimp/0 x 3 runs: data/blimp does not exist"]
    assert failure_lines(failures(2, 67)[1:]) == ["133 tasks in 2 runs: data/blimp does not exist"]


def test_what_names_its_own_task_is_one_line_too() -> None:
    missing = [
        Failure(Path("runs/0"), f"blimp/{task}", UsageError(f"cannot load nyu/blimp ({task}) from the hub"))
        for task in ("passive", "binding", "island")
    ]
    assert failure_lines(missing) == ["runs/0 3 tasks: cannot load nyu/blimp (passive) from the hub"]


def test_what_differs_keeps_its_own_line() -> None:
    alone = failures(1, 1, "no memory")
    assert failure_lines([*failures(2, 2), *alone]) == [
        "2 tasks x 2 runs: data/blimp does not exist",
        "runs/0 blimp/0: no memory",
    ]
    whole = [Failure(Path(f"runs/{n}"), None, UsageError(f"runs/{n}: has no model")) for n in range(2)]
    assert failure_lines(whole) == ["runs/0: has no model", "runs/1: has no model"]
