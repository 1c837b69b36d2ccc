"""Numbers of runs, smallest effects, signal and noise: by simulation and by published formulas."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, variance

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.statistics.power import (
    balanced,
    detection_power,
    expected_range,
    minimum_detectable_effect,
    runs_to_detect,
    runs_to_show_equivalence,
    signal_noise,
)
from report.statistics.tuning_curves import Selection
from report.statistics.welch import equivalence_power, welch

VARIANCES, WEIGHTS = [1.0, 4.0, 0.5, 2.0], [0.5, -0.5, 0.5, -0.5]


@pytest.mark.parametrize("df", [1.0, 4.3, 200.0])
def test_minimum_detectable_effect_has_the_power_it_claims(df: float):
    effect = minimum_detectable_effect(1.0, df)
    assert effect is not None
    critical = stats.t.ppf(0.975, df)
    # Over the spread that is seen, how often t lies beyond its critical value.
    reach = critical * np.sqrt(stats.chi2.ppf((np.arange(20_000) + 0.5) / 20_000, df) / df)
    power = (stats.norm.sf(reach - effect) + stats.norm.cdf(-reach - effect)).mean()
    assert power == pytest.approx(0.80, abs=1e-4)


def simulated(runs: int, effect: float, studies: int = 20_000):
    rng = np.random.default_rng(runs)
    cells = rng.normal(0, np.sqrt(VARIANCES)[:, None], size=(studies, 4, runs))
    cells[:, 0] += 2 * effect  # its weight is a half
    return welch(cells.mean(-1), cells.var(-1, ddof=1), [runs] * 4, WEIGHTS)


def test_runs_to_detect_are_the_fewest_that_do():
    effect = 1.5
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


def published_ratio(runs: dict[str, list[float]]) -> float:
    """Relative dispersion over relative standard deviation, both divided by the mean score."""
    means = {name: mean(scores) for name, scores in runs.items()}
    centre = mean(means.values())
    dispersion = max(abs(a - b) for a in means.values() for b in means.values()) / centre
    return dispersion / (mean(variance(scores) for scores in runs.values()) ** 0.5 / centre)


@pytest.mark.parametrize(("benchmark", "family"), [("blimp", "roberta"), ("glue", "gpt_neo")])
def test_published_scores_give_what_the_published_formulas_say(
    benchmark: str, family: str, shared_data: Path
):
    table = pd.read_csv(shared_data / "thesis" / "all_seeds.csv", keep_default_na=False)
    table = table[(table.benchmark == benchmark) & (table.family == family)]
    wide = table.pivot(index="variant", columns="seed", values="score")
    runs = {str(name): row.dropna() for name, row in wide.iterrows()}
    found = signal_noise([[row.to_numpy() for row in runs.values()]])
    assert found is not None
    assert found.ratio == pytest.approx(published_ratio({k: list(v) for k, v in runs.items()}))
    assert found.signal == pytest.approx(wide.mean(axis=1).max() - wide.mean(axis=1).min())


def test_families_weigh_alike_and_their_noise_averages_out():
    rng = np.random.default_rng(0)
    first, second = rng.normal(0, 1, (4, 6)), rng.normal(0, 3, (4, 6))
    found = signal_noise([list(first), list(second)])
    assert found is not None
    means = pd.DataFrame({"a": first.mean(1), "b": second.mean(1)}).mean(axis=1)
    assert found.signal == pytest.approx(means.max() - means.min())
    pooled = [pd.DataFrame(x).var(axis=1).mean() for x in (first, second)]
    assert found.noise == pytest.approx(np.sqrt((pooled[0] + pooled[1]) / 4))
    assert found.ratio == pytest.approx(found.signal / found.noise)
    # Four means of six runs: their standard error is that of one run by the root of six.
    assert found.ratio_of_equals == pytest.approx(expected_range(4) / np.sqrt(6))


@pytest.mark.parametrize(("num_variants", "tabulated"), [(2, 1.12838), (5, 2.32593), (9, 2.97003)])
def test_the_range_of_equals_is_tippetts(num_variants: int, tabulated: float):
    assert expected_range(num_variants) == pytest.approx(tabulated, abs=1e-5)


@pytest.mark.slow
def test_equal_variants_have_the_ratio_of_equals():
    rng = np.random.default_rng(3)
    found = [
        signal_noise([[rng.normal(0, 2, n) for n in (6, 6, 8, 8)] for _ in range(2)]) for _ in range(3000)
    ]
    ratios = [x.ratio for x in found if x]
    assert np.mean(ratios) == pytest.approx(np.mean([x.ratio_of_equals for x in found if x]), rel=0.04)


def test_what_cannot_be_told():
    one, two = np.array([1.0]), np.array([1.0, 2.0])
    assert signal_noise([[two]]) is None
    assert signal_noise([[one, one]]) is None
    assert signal_noise([[two, two], [one, one]]) is None
    assert signal_noise([[np.ones(3), np.ones(3)]]) is None
    assert signal_noise([[two, one]]) is not None
