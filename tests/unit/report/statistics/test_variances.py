"""Variances of arms against plain loops, and what the rule leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from report.statistics.welch import judged_variances, usual_variance


def test_what_is_usual_is_the_median_over_that_of_a_chi_square():
    variances, df = np.array([1.0, 4.0, 2.0, 9.0]), np.array([2.0, 4.0, 2.0, 0.0])
    expected = np.median([v / (stats.chi2.median(k) / k) for v, k in zip(variances[:3], df[:3], strict=True)])
    assert usual_variance(variances, df) == pytest.approx([expected])
    assert np.isnan(usual_variance([1.0], [0.0])).all()


def test_what_is_usual_is_the_variance_of_many_arms_of_one_law():
    scores = np.random.default_rng(0).normal(0, 3, size=(20_000, 4))
    assert usual_variance(scores.var(1, ddof=1), np.full(20_000, 3.0)) == pytest.approx([9.0], rel=0.03)


def test_small_variances_are_moderated_and_large_ones_are_not():
    variances = np.array([0.4, 0.6, 1.0, 1.0, 1.0, 9.0])
    judged = judged_variances(variances, np.full(6, 2.0))
    usual = 1.0 / (stats.chi2.median(2) / 2)
    expected = [(2 * usual + 2 * v) / 4 for v in variances[:5]]
    assert judged.variance[:5] == pytest.approx(expected)
    assert judged.variance[5] == 9.0
    assert judged.df.tolist() == [4.0] * 5 + [2.0]


@pytest.mark.parametrize("df", [[2.0] * 5, [2.0] * 5 + [0.0]])
def test_few_arms_keep_their_own(df: list[float]):
    variances = np.linspace(1, 9, len(df))
    judged = judged_variances(variances, df)
    assert judged.variance.tolist() == variances.tolist()
    assert judged.df.tolist() == df


def test_an_arm_of_far_fewer_runs_keeps_its_own_and_one_run_less_changes_no_rule():
    variances, df = np.full(7, 0.2), np.array([9.0, 9.0, 9.0, 9.0, 9.0, 8.0, 2.0])
    judged = judged_variances(variances * [1, 1, 1, 1, 1, 0.1, 0.1], df)
    assert judged.df.tolist() == [11.0] * 5 + [10.0, 2.0]


def test_studies_are_judged_side_by_side():
    rng = np.random.default_rng(1)
    variances, df = rng.chisquare(3, size=(5, 2, 8)), np.full(8, 3.0)
    judged = judged_variances(variances, df)
    for place in np.ndindex(5, 2):
        alone = judged_variances(variances[place], df)
        assert judged.variance[place] == pytest.approx(alone.variance)
        assert judged.df[place] == pytest.approx(alone.df)


def test_arms_of_no_one_law_keep_their_own():
    """The spread of true standard deviations is estimated: of many arms it is what they were drawn with."""
    rng = np.random.default_rng(2)
    for spread, is_usual in ((0.4, True), (1.0, False)):
        true = np.exp(spread * rng.standard_normal(4_000))
        variances = true**2 * rng.chisquare(4, 4_000) / 4
        judged = judged_variances(variances, np.full(4_000, 4.0))
        assert (judged.df > 4).any() == is_usual
