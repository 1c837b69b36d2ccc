"""Numbers of runs and smallest effects, by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from report.statistics.power import (
    balanced,
    detection_power,
    minimum_detectable_effect,
    runs_to_detect,
    runs_to_show_equivalence,
)
from report.statistics.tuning_curves import Selection
from report.statistics.welch import equivalence_power, welch

VARIANCES, WEIGHTS = [1.0, 4.0, 0.5, 2.0], [0.5, -0.5, 0.5, -0.5]


@pytest.mark.parametrize("df", [1.0, 2.0, 4.3, 10.0, 200.0])
def test_minimum_detectable_effect_has_the_power_it_claims(df: float):
    effect = minimum_detectable_effect(1.0, df)
    assert effect is not None
    rng = np.random.default_rng(0)
    t = (rng.standard_normal(400_000) + effect) / np.sqrt(rng.chisquare(df, 400_000) / df)
    power = (np.abs(t) > stats.t.ppf(0.975, df)).mean()
    assert power == pytest.approx(0.80, abs=0.004)


def simulated(runs: int, effect: float, studies: int = 20_000):
    rng = np.random.default_rng(runs)
    cells = rng.normal(0, np.sqrt(VARIANCES)[:, None], size=(studies, 4, runs))
    cells[:, 0] += 2 * effect  # its weight is a half
    return welch(cells.mean(-1), cells.var(-1, ddof=1), [runs] * 4, WEIGHTS)


@pytest.mark.parametrize("effect", [0.7, 1.5])
def test_runs_to_detect_are_the_fewest_that_do(effect: float):
    runs = runs_to_detect(effect, VARIANCES, WEIGHTS, level=0.05)
    assert runs is not None
    assert (simulated(runs, effect).p < 0.05).mean() > 0.79
    assert (simulated(runs - 1, effect).p < 0.05).mean() < 0.80
    error, df = balanced(VARIANCES, WEIGHTS, runs)
    assert detection_power(effect, error, df, 0.05) >= 0.80


def test_runs_to_show_equivalence_are_the_fewest_that_do():
    def shown(runs: int) -> float:
        found = simulated(runs, effect=0.0)
        half = stats.t.ppf(0.95, found.df) * found.standard_error
        return float((np.abs(found.estimate) + half < 1.0).mean())

    runs = runs_to_show_equivalence(1.0, VARIANCES, WEIGHTS, level=0.05)
    assert runs is not None
    assert shown(runs) > 0.79
    assert shown(runs - 1) < 0.80
    error, df = balanced(VARIANCES, WEIGHTS, runs)
    assert equivalence_power(error, df, 1.0, 0.05) == pytest.approx(shown(runs), abs=0.015)


def test_no_number_of_runs_where_nothing_varies_or_too_many_are_needed():
    assert runs_to_detect(1.0, [0.0, 0.0], [1, -1], 0.05) is None
    assert runs_to_detect(0.001, [1.0, 1.0], [1, -1], 0.05) is None


def test_more_runs_do_not_lessen_what_the_choice_of_a_rate_adds() -> None:
    choice = Selection(0.04, 30.0)
    runs = runs_to_detect(1.0, [1.0, 1.0], [1, -1], 0.05, choice=choice)
    assert runs is not None

    def power(n: int) -> float:
        drawn = 2 / n
        df = (drawn + 0.04) ** 2 / (drawn**2 / (2 * (n - 1)) + 0.04**2 / 30)
        shift = 1.0 / np.sqrt(drawn + 0.04)
        critical = stats.t.isf(0.025, df)
        return float(stats.nct.sf(critical, df, shift) + stats.nct.cdf(-critical, df, shift))

    assert power(runs - 1) < 0.8 <= power(runs)
    assert runs > (runs_to_detect(1.0, [1.0, 1.0], [1, -1], 0.05) or 0)
    # A regret as large as half of the difference hides it from any number of runs.
    assert runs_to_detect(1.0, [1.0, 1.0], [1, -1], 0.05, choice=Selection(0.25, 30.0)) is None
