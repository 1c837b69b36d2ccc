"""Learning curves against scipy's tests place by place, and speed ratios against curves of a known ratio."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.learning_curves import (
    SpeedRatio,
    difference_curve,
    first_below,
    mean_curve,
    resample,
    shared_axis,
    speed_ratio,
)

EVALUATIONS = np.linspace(0.1, 1.0, 10)
RATIOS = (0.5, 0.7, 0.84, 1.0, 1.19, 1.5, 2.0)
SPREADS = (0.01, 0.03, 0.05)


def curve(x):
    """Loss of a model that has spent x of the baseline's budget, about as a small GPT-Neo's."""
    return 1.8 + 0.9 * np.asarray(x) ** -0.25


def simulate(
    ratio: float, spread: float, num_studies: int, num_runs: int = 5, above: float = 0.0, places: int = 200
) -> SpeedRatio:
    """Compare arms of which one needs ``ratio`` as much; ``above`` lifts its curve.

    A run's whole curve lies off by ``spread``, and each evaluation by a tenth of the smallest spread seen.
    """
    rng = np.random.default_rng([round(1000 * ratio), round(1000 * spread), num_runs])
    length = max(1.0, 1.6 * ratio)
    x = np.linspace(0.1, length, round(10 * length))
    runs = (num_studies, num_runs)
    final = curve(1.0) + spread * rng.normal(size=runs) + 0.003 * rng.normal(size=runs)
    losses = above + curve(x / ratio) + spread * rng.normal(size=(*runs, 1))
    losses = losses + 0.003 * rng.normal(size=losses.shape)
    axis = shared_axis([(x[0], x[-1])], places)
    assert axis is not None
    return speed_ratio(axis, resample(x, losses, axis), final, 1.0)


def coverage(found: SpeedRatio, ratio: float) -> float:
    above = np.isnan(found.low) | (found.low <= ratio)
    return float((above & (np.isnan(found.high) | (ratio <= found.high))).mean())


@pytest.mark.parametrize("ratio", [0.5, 0.84, 2.0])
def test_a_known_ratio_is_covered(ratio: float):
    found = simulate(ratio, 0.03, 600)
    assert 0.93 <= coverage(found, ratio) <= 0.98  # of 600 studies the standard error is 0.9 points
    assert np.nanmedian(found.estimate) == pytest.approx(ratio, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("ratio", RATIOS)
def test_a_known_ratio_is_covered_as_often_as_it_says(ratio: float, spread: float):
    found = simulate(ratio, spread, 4000)
    covered = coverage(found, ratio)
    print(f"ratio {ratio}, spread {spread}: {covered:.2%}, no upper end {np.isnan(found.high).mean():.1%}")
    assert 0.94 <= covered <= 0.97


def test_a_curve_that_never_reaches_is_never_given_a_number():
    found = simulate(1.0, 0.05, 2000, above=0.35)  # its limit lies above the loss to be reached by 7 spreads
    assert np.isnan(found.estimate).all()
    assert np.isnan(found.high).all()
    assert (found.low > 0.9).all()


def test_an_exact_ratio_is_found_exactly():
    x = np.geomspace(0.1, 2.4, 60)
    for ratio in RATIOS:
        losses = np.tile(curve(x / ratio), (3, 1))
        axis = np.geomspace(0.1, 2.4, 400)
        found = speed_ratio(axis, resample(x, losses, axis), np.full(3, curve(1.0)), 1.0)
        assert [found.estimate, found.low, found.high] == pytest.approx([ratio] * 3, rel=1e-4)


def study(rng: np.random.Generator, shift: float, num_runs: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Curves (n, K) of a variant and of a baseline."""
    off = rng.normal(scale=0.04, size=(2, num_runs, 1))
    variant, baseline = curve(EVALUATIONS) + off
    return variant + shift, baseline


def test_the_interval_leaves_out_1_exactly_where_the_final_losses_differ():
    rng = np.random.default_rng(0)
    outcomes = set()
    for shift in np.linspace(-0.15, 0.15, 40):
        variant, baseline = study(rng, shift)
        axis = shared_axis([(0.1, 1.0)])
        found = speed_ratio(axis, resample(EVALUATIONS, variant, axis), baseline[:, -1], 1.0)
        test = stats.ttest_ind(variant[:, -1], baseline[:, -1], equal_var=False)
        differs = test.pvalue < 0.05
        assert bool(found.high < 1) == (differs and test.statistic < 0)
        assert bool(found.low >= 1) == (differs and test.statistic > 0)
        outcomes.add((bool(differs), bool(test.statistic > 0)))
    assert len(outcomes) == 4


def test_the_interval_holds_the_ratios_that_welch_does_not_reject():
    rng = np.random.default_rng(1)
    variant, baseline = study(rng, -0.12)
    axis = shared_axis([(0.1, 1.0)])
    found = speed_ratio(axis, resample(EVALUATIONS, variant, axis), baseline[:, -1], 1.0)
    assert 0.1 < found.low < found.estimate < found.high < 1
    for ratio in np.linspace(0.11, 0.99, 89):
        losses = resample(EVALUATIONS, variant, [ratio])[:, 0]
        p = stats.ttest_ind(losses, baseline[:, -1], equal_var=False).pvalue
        if min(abs(ratio - found.low), abs(ratio - found.high)) > 1e-3:
            assert (p > 0.05) == (found.low < ratio < found.high)


def test_a_rising_curve_keeps_all_ratios_between_the_first_and_the_last():
    off = np.array([[-0.01], [0.0], [0.01]])
    losses = np.array([4.0, 3.4, 3.0, 3.3, 3.6, 3.2, 2.8, 2.6, 2.5, 2.4]) + off
    axis = shared_axis([(0.1, 1.0)])
    found = speed_ratio(axis, resample(EVALUATIONS, losses, axis), 3.2 + off[:, 0], 1.0)
    assert 0.2 < found.low < found.estimate < 0.3  # met between the second evaluation and the third
    assert 0.6 < found.high < 0.7  # and left for good between the sixth and the seventh


def test_what_lies_outside_the_curve_is_not_invented():
    off = np.array([[-0.01], [0.0], [0.01]])
    axis = shared_axis([(0.1, 1.0)])
    losses = resample(EVALUATIONS, curve(EVALUATIONS) + off, axis)

    had_it = speed_ratio(axis, losses, curve(0.1) + 1 + off[:, 0], 1.0)
    assert had_it.estimate == had_it.first == had_it.high == pytest.approx(0.1)
    assert np.isnan(had_it.low)

    open_ended = speed_ratio(axis, losses, curve(0.998) + off[:, 0], 1.0)
    assert 0.9 < open_ended.low < open_ended.estimate < 1
    assert np.isnan(open_ended.high)

    never = speed_ratio(axis, losses, curve(1.0) - 1 + off[:, 0], 1.0)
    assert np.isnan([never.estimate, never.high]).all()
    assert never.low == never.last == pytest.approx(1.0)

    nearly = speed_ratio(axis, losses, curve(1.0) - 0.01 + off[:, 0], 1.0)
    assert np.isnan([nearly.estimate, nearly.high]).all()
    assert 0.9 < nearly.low < 1


def test_a_single_run_has_an_estimate_and_no_interval():
    axis = shared_axis([(0.1, 1.0)])
    losses = resample(EVALUATIONS, curve(EVALUATIONS / 0.8), axis)[None]
    for final in ([curve(1.0)], [curve(1.0)] * 3):
        found = speed_ratio(axis, losses, final, 1.0)
        assert found.estimate == pytest.approx(0.8, rel=1e-2)
        assert np.isnan([found.low, found.high]).all()


def test_equal_curves_without_spread_are_equally_fast():
    losses = np.tile(curve(EVALUATIONS), (3, 1))
    axis = shared_axis([(0.1, 1.0)])
    found = speed_ratio(axis, resample(EVALUATIONS, losses, axis), losses[:, -1], 1.0)
    assert [found.estimate, found.low] == pytest.approx([1, 1])
    assert not found.high < 1


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


def test_an_axis_goes_from_the_last_first_evaluation_to_the_last_end():
    axis = shared_axis([(1, 9), (2, 10)])
    assert axis is not None
    assert (axis[0], axis[-1]) == (2, 10)
    assert np.ptp(axis[1:] / axis[:-1]) < 1e-12
    assert shared_axis([(1, 2), (3, 9)]) is None


def test_a_threshold_is_met_where_the_curve_crosses_it():
    axis = np.geomspace(0.1, 1, 400)
    losses = np.stack([curve(axis), curve(axis) - 2, curve(axis) + 2])
    assert first_below(axis, losses, curve(0.37)) == pytest.approx([0.37, 0.1, np.nan], rel=1e-3, nan_ok=True)
