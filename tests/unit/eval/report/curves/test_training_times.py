"""Training time with its spread, as the source study's Table 6 has it."""

from __future__ import annotations

import statistics
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from eval.report.curves.equal_cost import clock, training_times
from eval.report.inputs.run_facts import RunFacts
from eval.report.sections.training import _slowed
from eval.results.published import read_table


def facts(family: str, variant: str, seconds: float | None, seed: int = 1) -> RunFacts:
    hours = None if seconds is None else seconds / 3600
    return RunFacts(
        run_id=f"{family}/{variant}/{seed}", family=family, variant=variant, seed=seed, train_hours=hours
    )


def test_means_and_spreads_are_those_of_python() -> None:
    times = {("gpt_neo", "gelu"): [100.0, 130.0, 190.0], ("roberta", "kan"): [300.0, 310.0]}
    runs = [facts(*arm, x, seed) for arm, of_arm in times.items() for seed, x in enumerate(of_arm)]
    found = training_times([*runs, facts("gpt_neo", "none", 50.0), facts("roberta", "none", None)])
    rows = {(x.family, x.variant): (x.n, x.mean_s, x.sd_s) for x in found.itertuples()}
    for arm, seconds in times.items():
        assert rows[arm] == pytest.approx((len(seconds), statistics.mean(seconds), statistics.stdev(seconds)))
    every = [100.0, 130.0, 190.0, 300.0, 310.0, 50.0]
    assert rows["", ""] == pytest.approx((6, statistics.mean(every), statistics.stdev(every)))
    assert rows["gpt_neo", "none"][:2] == (1, 50.0)
    assert np.isnan(rows["gpt_neo", "none"][2])
    assert ("roberta", "none") not in rows


def test_one_arm_has_no_row_for_all_and_no_run_no_row() -> None:
    assert len(training_times([facts("gpt_neo", "gelu", 5.0), facts("gpt_neo", "gelu", 6.0, 2)])) == 1
    assert training_times([facts("gpt_neo", "gelu", None)]).empty


def test_the_source_studys_times_are_written_as_it_prints_them() -> None:
    times = read_table("thesis", "table5-times")
    runs = [facts(x.family, x.variant, x.score, int(x.seed)) for x in times.itertuples()]
    found = training_times(runs).set_index(["family", "variant"])
    assert clock(found.mean_s["gpt_neo", "thesis-kan"]) == "3h23m35s"
    assert clock(found.mean_s["roberta", "relu"]) == "2h24m46s"
    assert clock(found.sd_s["gpt_neo", "learnable-gelu"]) == "1m02s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.26, "0.3s"), (59.94, "59.9s"), (60.4, "1m00s"), (3599.6, "1h00m00s"), (12215, "3h23m35s")],
)
def test_a_time_is_hours_minutes_and_seconds(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_runs_that_could_not_compile_are_named_beside_the_costs() -> None:
    compiled, eager = facts("gpt_neo", "gelu", 5.0), facts("gpt_neo", "kan", 50.0)
    analysis = SimpleNamespace(facts=[compiled, replace(eager, is_compile_failed=True)])
    assert "compiling failed" in _slowed(analysis)  # type: ignore[arg-type]
    assert "(gpt_neo/kan/1)" in _slowed(analysis)  # type: ignore[arg-type]
    assert not _slowed(SimpleNamespace(facts=[compiled, eager]))  # type: ignore[arg-type]
