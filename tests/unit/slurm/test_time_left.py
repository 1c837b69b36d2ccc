"""How long a study still takes, against sums by hand."""

from __future__ import annotations

from base.printing import duration
from slurm.cell_state import CellState
from slurm.survey import describe_time_left

NOW = 1_000_000.0
WAITING, RUNNING = CellState(), CellState(name="running", started_s=NOW)


def done(took_s: float) -> CellState:
    return CellState(name="done", started_s=NOW - 5000, finished_s=NOW - 5000 + took_s)


def test_what_is_left_is_shared_among_cells_at_work() -> None:
    states = [done(100), done(200), RUNNING, RUNNING, WAITING, WAITING, WAITING]
    assert describe_time_left(states) == f"2 of 7 cells, about {duration(5 * 150 / 2)} left"
    assert describe_time_left(states, at_work=5) == f"2 of 7 cells, about {duration(150)} left"


def test_no_study_ends_before_a_cell() -> None:
    assert describe_time_left([done(600), RUNNING, WAITING], 100) == "1 of 3 cells, about 10 min 00 s left"


def test_nothing_is_told_where_nothing_is_known_or_left() -> None:
    assert describe_time_left([WAITING, WAITING]) == ""
    assert describe_time_left([done(5), done(5)]) == ""
    assert describe_time_left([done(5), WAITING]) == ""
    failed = CellState(name="failed", started_s=NOW - 10, finished_s=NOW - 9)  # it says nothing of the others
    from_archive = CellState(name="done")
    assert describe_time_left([failed, from_archive, RUNNING]) == ""
