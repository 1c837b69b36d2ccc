"""Sums over a plan's lines, against sums by hand."""

from __future__ import annotations

import pytest

from slurm.plan.lines import Hours, Machines, PlanLine, PlanStage, StudyPlan, Work, totals
from slurm.plan.text import render


def line(work: Work, runs: int, hours: float | None, variant: str = "gelu") -> PlanLine:
    known = None if hours is None else Hours(hours, "a device", True)
    return PlanLine(work, "gpt_neo", variant, (), runs, 1_000_000, 5e15, known)


LINES = (line("training", 6, 2.0), line("training", 3, 1.0, "kan"), line("evaluation", 9, 0.5))


def test_hours_of_runs_are_added_and_shared_among_those_at_work() -> None:
    found = totals(LINES, Machines(parallel=3))
    assert (found.runs, found.tokens, found.flops) == (9, 18_000_000, 9e16)
    assert found.hours == pytest.approx(6 * 2 + 3 * 1 + 9 * 0.5)
    assert found.wall_hours == pytest.approx(19.5 / 3)
    assert (found.gpu_hours, found.price, found.unknown) == (0, None, 0)


def test_nothing_ends_before_its_longest_run() -> None:
    assert totals(LINES, Machines(parallel=None)).wall_hours == pytest.approx(2.5)
    assert totals(LINES, Machines(parallel=100)).wall_hours == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("machines", "price"),
    [
        (Machines(2, gpus_per_run=1, price_per_hour=2.5), 19.5 * 2.5),
        (Machines(2, gpus_per_run=0.5, price_per_hour=2.5), 19.5 / 2 * 2.5),
        (Machines(8, gpus_per_run=4, jobs_have_machines=True, price_per_hour=2.5), 19.5 * 4 * 2.5),
        (Machines(2, price_per_hour=2.5), 19.5 / 2 * 2.5),  # one machine, until all is done
        (Machines(2, jobs_have_machines=True, price_per_hour=2.5), 19.5 * 2.5),  # a machine a job
        (Machines(2, price_per_hour=0.0), 0.0),
    ],
)
def test_money_is_of_gpus_or_of_machines(machines: Machines, price: float) -> None:
    assert totals(LINES, machines).price == pytest.approx(price)


def test_stages_follow_one_another_and_what_may_follow_is_apart() -> None:
    more = PlanStage("more seeds", (line("training", 4, 3.0),), is_certain=False)
    plan = StudyPlan((PlanStage("tuning", LINES), PlanStage("main", LINES), more), Machines(2))
    assert plan.in_all().hours == pytest.approx(39)
    assert plan.in_all().wall_hours == pytest.approx(19.5)
    assert plan.in_all(most=True).hours == pytest.approx(39 + 12)
    assert plan.of_work("evaluation").hours == pytest.approx(9)
    assert plan.of_work("training").hours == pytest.approx(30)
    text = render(plan)
    row = next(each for each in text.splitlines() if each.startswith("  in all"))
    assert row.split()[2:] == ["18", "36,000,000", "180", "39.0", "0", "19.5"]
    row = next(each for each in text.splitlines() if each.startswith("  at most"))
    assert row.split()[2:] == ["22", "40,000,000", "200", "51.0", "0", "25.5"]


def test_what_is_not_known_is_said_and_not_counted_as_nothing() -> None:
    plan = StudyPlan((PlanStage("main", (*LINES, line("training", 5, None, "relu"))),), Machines(2))
    assert plan.in_all().unknown == 5
    text = render(plan)
    assert "hours of 5 runs are not known" in text
    assert "19.5+" in text
