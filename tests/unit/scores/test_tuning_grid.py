"""Grids, their ends and what lies behind them: cases worked out by hand."""

from __future__ import annotations

import math

import pytest

from scores.tuning_grid import best, beyond, edges, open_sides, points, widened
from scores.tuning_trials import mean_loss

RATES = {"optim.learning_rate": (0.0003, 0.001, 0.003)}


def at(rate: float) -> dict[str, float]:
    return {"optim.learning_rate": rate}


def test_points_are_the_product_of_the_fields():
    grid = {"a": (1, 2), "b": ("x", "y", "z")}
    assert [(p["a"], p["b"]) for p in points(grid)] == [
        (1, "x"), (1, "y"), (1, "z"), (2, "x"), (2, "y"), (2, "z"),
    ]  # fmt: skip


OPTIMIZERS = [({"rate": 1, "optimizer": name}, loss) for name, loss in (("adamw", 3.0), ("muon", 2.0))]


@pytest.mark.parametrize(
    ("point", "losses", "wanted"),
    [
        ({"rate": 1}, [({"rate": 1}, 2.0), ({"rate": 3}, 2.5), ({"rate": 2}, 2.2)], ("rate",)),
        ({"rate": 2}, [({"rate": 1}, 2.5), ({"rate": 2}, 2.0), ({"rate": 3}, 2.2)], ()),
        # What diverged is beyond the edge; where all did, nothing is known of it.
        ({"rate": 2}, [({"rate": 1}, 2.5), ({"rate": 2}, 2.0), ({"rate": 3}, math.inf)], ("rate",)),
        ({"rate": 1}, [({"rate": 1}, math.inf), ({"rate": 2}, math.inf)], ()),
        # Names have none, and rates are compared with the same name.
        ({"rate": 1, "optimizer": "muon"}, OPTIMIZERS, ("rate",)),
        (
            {"rate": 2, "optimizer": "muon"},
            [*OPTIMIZERS, ({"rate": 2, "optimizer": "muon"}, 1.0), ({"rate": 3, "optimizer": "adamw"}, 5.0)],
            ("rate",),
        ),
    ],
)
def test_numbers_have_edges_where_runs_did_not_diverge_and_names_have_none(point, losses, wanted) -> None:
    assert edges(point, losses) == wanted


@pytest.mark.parametrize(
    ("values", "is_upper", "wanted"),
    [
        ((0.0003, 0.001, 0.003), True, 0.009),
        ((0.0003, 0.001, 0.003), False, 0.00009),
        ((1e-3, 3e-3), True, 9e-3),
        ((16, 32), True, 64),
        ((16, 32), False, 8),
        ((1, 2), False, None),  # half a row, rounded to none
        ((2, 3), False, 1),  # 4/3
        ((0.0, 0.01, 0.1), False, None),  # nothing is below zero by a ratio
        ((0.0, 0.01, 0.1), True, 1.0),
        ((-1.0, 2.0), True, None),
        (("linear", "cosine"), True, None),
        ((False, True), True, None),
    ],
)
def test_a_value_behind_an_end_is_as_far_from_it_as_its_neighbour(values, is_upper, wanted):
    found = beyond(values, is_upper)
    assert found == wanted
    assert type(found) is type(wanted)


def test_the_lowest_mean_is_best_and_a_run_that_diverged_is_worse_than_any_loss():
    assert mean_loss([2.0, 3.0, 4.0]) == 3.0
    assert mean_loss([1.0, None, 1.0]) == math.inf
    losses = [(at(0.0003), 3.0), (at(0.001), 2.5), (at(0.003), mean_loss([1.0, None]))]
    assert best(RATES, losses)[0] == at(0.001)


def test_of_equal_losses_the_lower_rate_is_best_whatever_their_order():
    losses = [(at(0.003), 2.0), (at(0.001), 2.0), (at(0.0003), 2.1)]
    assert best(RATES, losses)[0] == at(0.001)
    nothing = [(at(rate), math.inf) for rate in (0.003, 0.001, 0.0003)]
    assert best(RATES, nothing)[0] == at(0.0003)


def test_ends_at_which_a_point_lies():
    assert open_sides(RATES, at(0.001)) == []
    assert open_sides(RATES, at(0.003)) == [("optim.learning_rate", True)]
    assert open_sides(RATES, at(0.0003)) == [("optim.learning_rate", False)]
    grid = {"rate": (0.001, 0.003), "decay": (0.0, 0.1), "schedule": ("linear", "cosine")}
    corner = {"rate": 0.001, "decay": 0.0, "schedule": "cosine"}
    assert open_sides(grid, corner) == [("rate", False)]  # decay has nothing below, names no order


def test_a_grid_grows_once_behind_each_end_that_is_named():
    sides = [("optim.learning_rate", True), ("optim.learning_rate", False), ("optim.learning_rate", True)]
    assert widened(RATES, sides) == {"optim.learning_rate": (0.00009, 0.0003, 0.001, 0.003, 0.009)}
    grid = {"rate": (0.001, 0.003), "schedule": ("linear", "cosine")}
    assert widened(grid, [("rate", True)]) == {
        "rate": (0.001, 0.003, 0.009),
        "schedule": ("linear", "cosine"),
    }
