"""How long a study still takes, against sums by hand."""

from __future__ import annotations

from base.printing import duration
from slurm.cell_state import CellState
from slurm.survey import CellTime, describe_time_left

NOW = 1_000_000.0


def done(took_s: float) -> CellState:
    return CellState(name="done", started_s=NOW - 5000, finished_s=NOW - 5000 + took_s)


def running(for_s: float) -> CellState:
    return CellState(name="running", started_s=NOW - for_s)


WAITING = CellState()


def cells(stage: str, *states: CellState, kind: str = "gelu") -> list[CellTime]:
    return [CellTime((stage, "gpt_neo", kind), state) for state in states]


def test_what_is_left_is_shared_among_cells_at_work() -> None:
    told = describe_time_left(
        cells("main", done(100), done(200), running(50), running(20), WAITING, WAITING, WAITING), now_s=NOW
    )
    left = (150 - 50) + (150 - 20) + 3 * 150
    assert told == f"2 of 7 cells, about {duration(left / 2)} left"


def test_cells_last_as_long_as_those_of_their_kind() -> None:
    small = cells("main", done(10), WAITING, WAITING, kind="small")
    large = cells("main", done(1000), running(400), WAITING, kind="large")
    told = describe_time_left([*small, *large], now_s=NOW)
    assert told == f"2 of 6 cells, about {duration(2 * 10 + 600 + 1000)} left"


def test_cells_of_which_none_like_them_is_done_last_as_long_as_all_that_are() -> None:
    small = cells("main", done(10), WAITING, running(5), kind="small")
    told = describe_time_left([*small, *cells("main", WAITING, WAITING, kind="large")], now_s=NOW)
    assert told == f"1 of 5 cells, about {duration(35)} left"


def test_no_study_ends_before_its_longest_cell() -> None:
    told = describe_time_left(cells("main", done(600), running(60), WAITING), at_work=100, now_s=NOW)
    assert told == "1 of 3 cells, about 10 min 00 s left"


def test_nothing_is_told_where_nothing_is_known_or_left() -> None:
    assert describe_time_left(cells("main", WAITING, WAITING), now_s=NOW) == ""
    assert describe_time_left(cells("main", done(5), done(5)), now_s=NOW) == ""
    assert "not known until one is done" in describe_time_left(cells("main", running(5), WAITING), now_s=NOW)
    failed = CellState(name="failed", started_s=NOW - 10, finished_s=NOW - 9)  # it says nothing of the others
    assert "not known" in describe_time_left(cells("main", failed, running(5)), now_s=NOW)
