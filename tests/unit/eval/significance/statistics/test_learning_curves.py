"""Learning curves against scipy's tests place by place."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.learning_curves import difference_curve, first_below, mean_curve, resample

EVALUATIONS = np.linspace(0.1, 1.0, 10)


def curve(x):
    """Loss of a model that has spent x of the baseline's budget, about as a small GPT-Neo's."""
    return 1.8 + 0.9 * np.asarray(x) ** -0.25


def test_means_and_differences_are_those_of_scipy_at_every_place():
    rng = np.random.default_rng(2)
    variant, baseline = rng.normal(size=(5, 7)), rng.normal(size=(4, 7)) * 2
    mean, difference = mean_curve(variant), difference_curve(variant, baseline)
    for place in range(7):
        expected = stats.ttest_1samp(variant[:, place], 0).confidence_interval()
        assert [mean.low[place], mean.high[place]] == pytest.approx([expected.low, expected.high])
        test = stats.ttest_ind(variant[:, place], baseline[:, place], equal_var=False)
        expected = test.confidence_interval()
        assert [difference.low[place], difference.high[place], difference.p[place]] == pytest.approx(
            [expected.low, expected.high, test.pvalue]
        )
    assert np.isnan(mean_curve(variant[:1]).low).all()
    np.testing.assert_array_equal(mean_curve(variant[:1]).estimate, variant[0])


def test_curves_are_read_off_between_their_evaluations():
    losses = curve(EVALUATIONS)
    np.testing.assert_allclose(resample(EVALUATIONS, losses, EVALUATIONS), losses)
    between = np.linspace(0.1, 1, 333)
    assert abs(resample(EVALUATIONS, losses, between) - curve(between)).max() < 0.01
    assert (
        np.diff(resample(EVALUATIONS, [3, 2, 2.5, 2.5, 1, 1, 1, 0, 0, 0], between)[between > 0.5]) <= 0
    ).all()
    assert resample(EVALUATIONS, losses, [1.0, 1.3]).tolist() == [losses[-1]] * 2  # a run that has ended


def test_a_threshold_is_met_where_the_curve_crosses_it():
    axis = np.geomspace(0.1, 1, 400)
    losses = np.stack([curve(axis), curve(axis) - 2, curve(axis) + 2])
    assert first_below(axis, losses, curve(0.37)) == pytest.approx([0.37, 0.1, np.nan], rel=1e-3, nan_ok=True)
