"""Grids and the record of a tuning: rounds that follow from losses, and what lies behind an end."""

import itertools
import json
import math
import re
from collections.abc import Sequence

import pytest

from base.errors import UsageError
from base.records import parse_record, write_record
from base.run.folder_names import StudyFolder
from report.statistics.tuning_curves import chosen_places
from scores.tuning_grid import Value, best, beyond, edges, open_sides, points, widened
from scores.tuning_trials import Losses, Trial, Tuning, TuningPlan, mean_loss, read_tuning, write_tuning
from tests.cases import listed

RATES = {"optim.learning_rate": (0.0003, 0.001, 0.003)}


def at(rate: float) -> dict[str, float]:
    return {"optim.learning_rate": rate}


def test_points_are_the_product_of_the_fields():
    grid = {"a": (1, 2), "b": ("x", "y", "z")}
    assert [(p["a"], p["b"]) for p in points(grid)] == [(a, b) for a in (1, 2) for b in "xyz"]


@pytest.mark.parametrize(("point", "losses", "wanted"), listed(__file__, "edges"))
def test_numbers_have_edges_where_runs_did_not_diverge_and_names_have_none(point, losses, wanted) -> None:
    assert edges(point, losses) == wanted


@pytest.mark.parametrize(("values", "is_upper", "wanted"), listed(__file__, "values behind ends"))
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
    assert widened(grid, [("rate", True)]) == grid | {"rate": (0.001, 0.003, 0.009)}


RATE = "optim.learning_rate"
OPTIMA = {"gelu": 1e-3, "kan": 3e-3, "relu": 1e-3}
HERE = ("gpt_neo", ())


def plan(**changes) -> TuningPlan:
    values = {
        "fields": {RATE: (3e-4, 1e-3, 3e-3)},
        "seeds": (101, 102),
        "select": "held-out-loss",
        "by_curve": True,
        "widen": 2,
        "shared": True,
        "baseline": "gelu",
        "variants": ("gelu", "kan", "relu"),
        "settings": (HERE,),
    }
    return TuningPlan(**(values | changes))


def losses_of(optima: dict[str, float]) -> Losses:
    """A bowl around each variant's optimum, the same at every seed."""

    def losses(one: Trial, seeds: Sequence[int]) -> tuple[float | None, ...]:
        distance = abs(one.point[RATE] / optima[one.variant] - 1)
        return (2.0 + distance, 2.1 + distance)

    return losses


def rates(tuning: Tuning, variant: str) -> list[Value]:
    """What was tried for a variant, or is to be, in order."""
    return [one.point[RATE] for one in tuning.trials() if one.variant == variant]


def chosen(tuning: Tuning) -> dict[str, Value]:
    return {one.variant: one.point[RATE] for one in tuning.chosen}


def test_first_all_variants_try_the_grid_and_nothing_is_chosen():
    tuning = Tuning(plan=plan())
    assert {name: rates(tuning, name) for name in OPTIMA} == {name: [3e-4, 1e-3, 3e-3] for name in OPTIMA}
    assert tuning.advanced(lambda one, seeds: None, "today", chosen_places) == tuning
    assert tuning.choice(*HERE, "kan") is None


def test_a_grid_that_holds_every_best_inside_is_through_after_one_round():
    tuning = Tuning(plan=plan()).advanced(losses_of(dict.fromkeys(OPTIMA, 1e-3)), "today", chosen_places)
    assert chosen(tuning) == dict.fromkeys(OPTIMA, 1e-3)
    assert tuning.is_over
    assert [one.made for one in tuning.rounds] == ["today"]
    assert tuning.choice(*HERE, "kan").loss == pytest.approx(2.05)
    assert all(tuning.at_edge(one) == () for one in tuning.chosen)


def test_a_grid_grows_as_often_as_planned_and_the_choice_at_its_end_is_told():
    far = {"gelu": 1e-3, "kan": 1.0, "relu": 1e-6}
    tuning = Tuning(plan=plan(widen=2)).advanced(losses_of(far), "today", chosen_places)
    assert len(tuning.rounds) == 3
    tried = [2.7e-5, 9e-5, 3e-4, 1e-3, 3e-3, 9e-3, 2.7e-2]
    assert all(sorted(rates(tuning, name)) == pytest.approx(tried) for name in OPTIMA)
    assert chosen(tuning) == pytest.approx({"gelu": 1e-3, "kan": 2.7e-2, "relu": 2.7e-5})
    edges_by_name = {one.variant: tuning.at_edge(one) for one in tuning.chosen}
    assert edges_by_name == {"gelu": (), "kan": (RATE,), "relu": (RATE,)}
    never = Tuning(plan=plan(widen=0)).advanced(losses_of(far), "today", chosen_places)
    assert len(never.rounds) == 1
    assert chosen(never) == {"gelu": 1e-3, "kan": 3e-3, "relu": 3e-4}


def test_a_variant_that_diverges_everywhere_is_tried_lower_and_then_has_the_lowest():
    def losses(one: Trial, seeds: Sequence[int]) -> tuple[float | None, ...] | None:
        return (None, 2.0) if one.variant == "kan" else losses_of(OPTIMA)(one, seeds)

    tuning = Tuning(plan=plan(widen=1)).advanced(losses, "today", chosen_places)
    choice = tuning.choice(*HERE, "kan")
    assert choice.point == {RATE: 9e-5}
    assert choice.loss is None


def highest_that_ended(rates: Sequence[float], losses: Sequence[Sequence[Sequence[float]]]) -> list[int]:
    """Choose what no curve would."""
    return [max(i for i, at in enumerate(of_rates) if not math.isnan(sum(at))) for of_rates in losses]


@pytest.mark.parametrize("by_curve", [True, False])
def test_a_choice_is_made_field_by_field_in_studies_that_began_with_it(by_curve: bool) -> None:
    grid = {RATE: (3e-4, 1e-3, 3e-3), "optim.optimizer": ("adamw", "muon"), "optim.weight_decay": (0.1, 0.2)}

    def losses(one: Trial, seeds: Sequence[int]) -> tuple[float | None, ...] | None:
        if one.point[RATE] == 3e-3 and one.variant == "kan":
            return (None, 2.0)
        return losses_of(OPTIMA)(one, seeds)

    tuning = Tuning(plan=plan(widen=0, fields=grid, by_curve=by_curve))
    points = {one.variant: one.point for one in tuning.advanced(losses, "today", highest_that_ended).chosen}
    highest = {"gelu": 3e-3, "kan": 1e-3, "relu": 3e-3} if by_curve else dict.fromkeys(OPTIMA, 1e-3)
    decay = 0.2 if by_curve else 0.1
    assert points == {
        name: {RATE: rate, "optim.optimizer": "adamw", "optim.weight_decay": decay}
        for name, rate in highest.items()
    }


def test_settings_are_tuned_apart_and_one_that_waits_holds_no_other():
    places = (("size", "0.1M"),), (("size", "0.5M"),)
    tuning = Tuning(plan=plan(settings=(("gpt_neo", places[0]), ("gpt_neo", places[1]))))

    def losses(one: Trial, seeds: Sequence[int]) -> tuple[float | None, ...] | None:
        return losses_of(dict.fromkeys(OPTIMA, 1e-3))(one, seeds) if one.places == places[1] else None

    now = tuning.advanced(losses, "today", chosen_places)
    assert [one.places for one in now.chosen] == [places[1]] * 3
    assert not now.is_over
    assert now.shared("gpt_neo", places[1]).variant == "gelu"
    assert now.shared("gpt_neo", places[0]) is None
    assert {one.places for group in now.plan.groups for one in now.due(group)} == {places[0]}

    # The setting that waited is chosen last and listed first, as the plan has it.
    over = now.advanced(losses_of(dict.fromkeys(OPTIMA, 1e-3)), "today", chosen_places)
    in_order = [(one.places, one.variant) for one in over.chosen_in_order]
    assert in_order == list(itertools.product(places, over.plan.variants))
    assert [one.places for one in over.chosen] == [places[1]] * 3 + [places[0]] * 3


CHOSEN = Tuning(plan=plan()).advanced(losses_of(dict.fromkeys(OPTIMA, 1e-3)), "today", chosen_places)


def test_a_record_is_read_as_it_was_written(tmp_path):
    assert read_tuning(tmp_path) is None
    grid = {RATE: (3e-4, 1e-3, 3e-3, 9e-3), "train.batch_size": (8, 16)}
    tuning = Tuning(plan=plan(widen=1, fields=grid, cells=("a/b/c",)))
    tuning = tuning.advanced(losses_of(OPTIMA), "2026-11-23", chosen_places)
    write_tuning(tmp_path, tuning)
    assert read_tuning(tmp_path) == tuning


def test_a_record_of_an_older_version_with_its_edges_and_shares_is_read(tmp_path):
    write_tuning(tmp_path, CHOSEN)
    path = StudyFolder(tmp_path).tuning_file
    record = parse_record(path.read_bytes())
    record["plan"]["method"] = "grid"
    for one in record["rounds"]:
        one["share"] = 1.0
    for one in record["chosen"]:
        one["at_edge"] = ["optim.learning_rate"]
    write_record(path, record)
    assert read_tuning(tmp_path) == CHOSEN


@pytest.mark.parametrize("change", [{"baseline": None}, {"fields": [1e-3]}])
def test_a_record_that_does_not_parse_is_refused(tmp_path, change):
    write_tuning(tmp_path, CHOSEN)
    file = StudyFolder(tmp_path).tuning_file
    values = json.loads(file.read_text())
    values["plan"] |= change
    file.write_text(json.dumps(values))
    with pytest.raises(UsageError, match=re.escape(f"{file} is damaged")):
        read_tuning(tmp_path)
