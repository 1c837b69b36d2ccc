"""Welch's test, numbers of runs and smallest effects: against scipy, simulation and published formulas."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.statistics import power as runs_and_power
from report.statistics.tuning_curves import Selection
from report.statistics.welch import (
    equivalence_p,
    equivalence_power,
    hedges_g,
    inequality_p,
    judged_variances,
    smallest_margin,
    usual_variance,
    welch,
)
from tests.cases import listed

VARIANCES, WEIGHTS = [1.0, 4.0, 0.5, 2.0], [0.5, -0.5, 0.5, -0.5]


@pytest.mark.parametrize("df", [1.0, 4.3, 200.0])
def test_minimum_detectable_effect_has_the_power_it_claims(df: float):
    effect = runs_and_power.minimum_detectable_effect(1.0, df)
    critical = stats.t.ppf(0.975, df)
    # Over the spread that is seen, how often t lies beyond its critical value.
    reach = critical * np.sqrt(stats.chi2.ppf((np.arange(20_000) + 0.5) / 20_000, df) / df)
    power = (stats.norm.sf(reach - effect) + stats.norm.cdf(-reach - effect)).mean()
    assert power == pytest.approx(0.80, abs=1e-4)


def simulated_studies(runs: int, effect: float, studies: int = 20_000):
    rng = np.random.default_rng(runs)
    cells = rng.normal(0, np.sqrt(VARIANCES)[:, None], size=(studies, 4, runs))
    cells[:, 0] += 2 * effect  # its weight is a half
    return welch(cells.mean(-1), cells.var(-1, ddof=1), [runs] * 4, WEIGHTS)


def test_runs_to_detect_are_the_fewest_that_do():
    effect = 1.5
    runs = runs_and_power.runs_to_detect(effect, VARIANCES, WEIGHTS, level=0.05)
    assert (simulated_studies(runs, effect).p < 0.05).mean() > 0.79
    assert (simulated_studies(runs - 1, effect).p < 0.05).mean() < 0.80
    error, df = runs_and_power.balanced(VARIANCES, WEIGHTS, runs)
    assert runs_and_power.detection_power(effect, error, df, 0.05) >= 0.80


def test_runs_to_show_equivalence_are_the_fewest_that_do():
    def shown(runs: int) -> float:
        found = simulated_studies(runs, effect=0.0)
        half = stats.t.ppf(0.95, found.df) * found.standard_error
        return float((np.abs(found.estimate) + half < 1.0).mean())

    runs = runs_and_power.runs_to_show_equivalence(1.0, VARIANCES, WEIGHTS, level=0.05)
    assert shown(runs) > 0.79
    assert shown(runs - 1) < 0.80
    error, df = runs_and_power.balanced(VARIANCES, WEIGHTS, runs)
    assert equivalence_power(error, df, 1.0, 0.05) == pytest.approx(shown(runs), abs=0.015)


def test_no_number_of_runs_where_nothing_varies_or_too_many_are_needed():
    assert runs_and_power.runs_to_detect(1.0, [0.0, 0.0], [1, -1], 0.05) is None
    assert runs_and_power.runs_to_detect(0.001, [1.0, 1.0], [1, -1], 0.05) is None
    # Where one arm varies it is a t test of one sample: ten for a difference of one deviation (Cohen 1988).
    assert runs_and_power.runs_to_detect(1.0, [1.0, 0.0], [1, -1], 0.05) == 10


def test_more_runs_do_not_lessen_what_the_choice_of_a_rate_adds() -> None:
    choice = Selection(0.04, 30.0)
    runs = runs_and_power.runs_to_detect(1.0, [1.0, 1.0], [1, -1], 0.05, choice=choice)

    def power(n: int) -> float:
        drawn = 2 / n
        df = (drawn + 0.04) ** 2 / (drawn**2 / (2 * (n - 1)) + 0.04**2 / 30)
        shift = 1.0 / np.sqrt(drawn + 0.04)
        critical = stats.t.isf(0.025, df)
        return float(stats.nct.sf(critical, df, shift) + stats.nct.cdf(-critical, df, shift))

    assert power(runs - 1) < 0.8 <= power(runs)
    assert runs > (runs_and_power.runs_to_detect(1.0, [1.0, 1.0], [1, -1], 0.05) or 0)
    # A regret as large as half of the difference hides it from any number of runs.
    assert runs_and_power.runs_to_detect(1.0, [1.0, 1.0], [1, -1], 0.05, choice=Selection(0.25, 30.0)) is None


def test_families_weigh_alike_and_their_noise_averages_out():
    rng = np.random.default_rng(0)
    first, second = rng.normal(0, 1, (4, 6)), rng.normal(0, 3, (4, 6))
    found = runs_and_power.signal_noise([list(first), list(second)])
    means = pd.DataFrame({"a": first.mean(1), "b": second.mean(1)}).mean(axis=1)
    assert found.signal == pytest.approx(means.max() - means.min())
    pooled = [pd.DataFrame(x).var(axis=1).mean() for x in (first, second)]
    assert found.noise == pytest.approx(np.sqrt((pooled[0] + pooled[1]) / 4))
    assert found.ratio == pytest.approx(found.signal / found.noise)
    # Four means of six runs: their standard error is that of one run by the root of six.
    assert found.ratio_of_equals == pytest.approx(runs_and_power.expected_range(4) / np.sqrt(6))


@pytest.mark.parametrize(("num_variants", "tabulated"), [(2, 1.12838), (5, 2.32593), (9, 2.97003)])
def test_the_range_of_equals_is_tippetts(num_variants: int, tabulated: float):
    assert runs_and_power.expected_range(num_variants) == pytest.approx(tabulated, abs=1e-5)


def test_what_cannot_be_told():
    one, two = np.array([1.0]), np.array([1.0, 2.0])
    assert runs_and_power.signal_noise([[two]]) is None
    assert runs_and_power.signal_noise([[one, one]]) is None
    assert runs_and_power.signal_noise([[two, two], [one, one]]) is None
    assert runs_and_power.signal_noise([[np.ones(3), np.ones(3)]]) is None
    assert runs_and_power.signal_noise([[two, one]]) is not None


@pytest.mark.parametrize(("sizes", "margin"), [((2, 2), 4.0), ((3, 3), 1.0), ((6, 5), 0.5), ((12, 4), 1.0)])
def test_equivalence_equals_two_one_sided_tests_of_scipy(sizes: tuple[int, int], margin: float):
    rng = np.random.default_rng(sizes[0])
    a, b = rng.normal(61, 3, sizes[0]), rng.normal(60, 1, sizes[1])
    above = stats.ttest_ind(a + margin, b, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(a - margin, b, equal_var=False, alternative="less").pvalue
    test = welch([a.mean(), b.mean()], [a.var(ddof=1), b.var(ddof=1)], sizes, [1, -1])
    estimate, error, df = float(test.estimate), float(test.standard_error), float(test.df)
    assert equivalence_p(estimate, error, df, margin) == pytest.approx(max(above, below), rel=1e-9)
    # The 90% interval ends at the smallest margin that passes.
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.90)
    assert smallest_margin(estimate, error, df, 0.05) == pytest.approx(
        max(abs(interval.low), abs(interval.high))
    )


def test_differences_of_families_are_unequal_by_welchs_test():
    rng = np.random.default_rng(5)
    a, b = rng.normal(0, 1, 5), rng.normal(1, 3, 4)
    of_both = [(x.mean(), stats.sem(x), len(x) - 1) for x in (a, b)]
    expected = stats.ttest_ind(a, b, equal_var=False).pvalue
    assert inequality_p(*zip(*of_both, strict=True)) == pytest.approx(expected)
    means, variances = rng.normal(0, [1, 2, 4], (4000, 3)), rng.chisquare(6, (4000, 3)) / 6 * [1, 4, 16]
    false = [inequality_p(*x, [6, 6, 6]) < 0.05 for x in zip(means, np.sqrt(variances), strict=True)]
    assert 0.04 < np.mean(false) < 0.06


def test_hedges_g_by_hand():
    cells = [np.array([1.0, 3.0]), np.array([2.0, 6.0])]
    pooled = np.sqrt((2.0 + 8.0) / 2)  # variances 2 and 8, one degree of freedom each
    assert hedges_g(-2.0, cells) == pytest.approx(-2.0 / pooled * (1 - 3 / 7))
    assert hedges_g(1.0, [np.ones(3), np.zeros(3)]) is None


def test_added_variance_is_that_of_a_further_arm() -> None:
    rng = np.random.default_rng(0)
    arms = [rng.normal(0, sd, n) for sd, n in ((1, 4), (2, 6), (3, 5))]
    means, variances, counts = zip(*[(a.mean(), a.var(ddof=1), len(a)) for a in arms], strict=True)
    three = welch(means, variances, counts, [1, -1, 1])
    two = welch(
        means[:2], variances[:2], counts[:2], [1, -1], added=[variances[2] / 5, 0], added_df=[4, np.inf]
    )
    assert (two.standard_error, two.df) == (pytest.approx(three.standard_error), pytest.approx(three.df))


def test_what_is_usual_is_the_median_over_that_of_a_chi_square():
    variances, df = np.array([1.0, 4.0, 2.0, 9.0]), np.array([2.0, 4.0, 2.0, 0.0])
    expected = np.median([v / (stats.chi2.median(k) / k) for v, k in zip(variances[:3], df[:3], strict=True)])
    assert usual_variance(variances, df) == pytest.approx([expected])
    assert np.isnan(usual_variance([1.0], [0.0])).all()


def test_small_variances_are_moderated_and_large_ones_are_not():
    variances = np.array([0.4, 0.6, 1.0, 1.0, 1.0, 9.0])
    judged = judged_variances(variances, np.full(6, 2.0))
    usual = 1.0 / (stats.chi2.median(2) / 2)
    expected = [(2 * usual + 2 * v) / 4 for v in variances[:5]]
    assert judged.variance[:5] == pytest.approx(expected)
    assert judged.variance[5] == 9.0
    assert judged.df.tolist() == [4.0] * 5 + [2.0]


@pytest.mark.parametrize(("variances", "df", "judged_df"), listed(__file__, "arms that keep their own"))
def test_few_arms_and_those_of_far_fewer_runs_keep_their_own(variances, df, judged_df):
    judged = judged_variances(variances, df)
    assert judged.df.tolist() == list(judged_df)
    assert ((judged.variance != variances) == (judged.df != df)).all()


def test_arms_of_no_one_law_keep_their_own():
    """The spread of true standard deviations is estimated: of many arms it is what they were drawn with."""
    rng = np.random.default_rng(2)
    for spread, is_usual in ((0.4, True), (1.0, False)):
        true = np.exp(spread * rng.standard_normal(4_000))
        variances = true**2 * rng.chisquare(4, 4_000) / 4
        judged = judged_variances(variances, np.full(4_000, 4.0))
        assert (judged.df > 4).any() == is_usual
