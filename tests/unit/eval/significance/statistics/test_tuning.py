"""What a tuning knows: against scipy, random draws, and parabolas that are known; its level, simulated."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from benchmarks.tuning_error_rates import BASE, REVERSED, Setting, simulate
from eval.significance.statistics.tuning import (
    Selection,
    added_variance,
    choice_share,
    combined,
    curve,
    expected_best,
    loss_at,
    lowest,
    moderated_noise,
    own_noise,
)
from eval.significance.statistics.welch import welch

RATES = np.log([1e-3, 2e-3, 6e-3, 2e-2])


def _parabola(place: float, cost: float = 0.1) -> np.ndarray:
    return 3.0 + cost * (RATES - place) ** 2


@pytest.mark.parametrize("rate", [1.1e-3, 2.9e-3, 1e-2, 2.2e-2])
def test_the_lowest_of_a_parabola_is_found_between_rates_that_are_not_evenly_spaced(rate: float) -> None:
    found = lowest(RATES, _parabola(np.log(rate)))
    assert found.place == pytest.approx(np.log(rate))
    assert found.loss == pytest.approx(3.0)


@pytest.mark.parametrize(("rate", "side"), [(1e-1, -1), (1e-5, 0)])
def test_a_curve_is_followed_half_a_spacing_beyond_the_grid_and_no_further(rate: float, side: int) -> None:
    found = lowest(RATES, _parabola(np.log(rate)))
    spacing = np.diff(RATES)[side] / 2
    assert found.place == pytest.approx(RATES[side] + (spacing if side else -spacing))
    assert found.loss == pytest.approx(3.0 + 0.1 * (found.place - np.log(rate)) ** 2)


def test_two_rates_or_a_line_have_the_lowest_rate() -> None:
    assert lowest(RATES[:2], np.array([2.0, 1.0])) == (RATES[1], 1.0)
    assert lowest([0.0, 1.0, 2.0], np.array([1.0, 2.0, 3.0])) == (0.0, 1.0)


def test_losses_between_rates_are_those_of_the_parabola() -> None:
    place = np.array([RATES[0] - 0.1, -6.0, -5.2, RATES[-1] + 0.2])
    expected = 3.0 + 0.1 * (place - np.log(4e-3)) ** 2
    losses = np.broadcast_to(_parabola(np.log(4e-3)), (4, 4))
    assert loss_at(RATES, losses, place) == pytest.approx(expected)


def test_a_variants_noise_lies_between_its_own_and_what_is_usual() -> None:
    variances, df = np.array([1.0, 4.0, 2.0, 9.9, 100.0]), np.array([5.0, 5.0, 5.0, 0.0, 2.0])
    found, of = moderated_noise(variances, df)
    usual = np.median([v / stats.chi2.ppf(0.5, n) * n for v, n in zip(variances, df, strict=True) if n])
    expected = [(2 * usual + n * (v if n else 0)) / (2 + n) for v, n in zip(variances, df, strict=True)]
    assert found == pytest.approx(expected)
    assert of.tolist() == [7.0, 7.0, 7.0, 2.0, 4.0]
    several = moderated_noise(np.stack([variances, 2 * variances]), df)[0]
    assert several == pytest.approx(np.stack([found, 2 * found]))
    assert np.isnan(moderated_noise([0.0, 0.0], [0.0, 0.0])[0]).all()


def test_what_is_usual_is_the_true_variance_of_many_variants_of_which_some_are_unstable() -> None:
    rng = np.random.default_rng(0)
    spreads = np.where(np.arange(40) < 4, 8.0, 1.0)
    runs = spreads[:, None] * rng.standard_normal((2_000, 40, 6))
    found, _ = moderated_noise(runs.var(-1, ddof=1), 5.0)
    assert found[:, 4:].mean() == pytest.approx(1.0, rel=0.1)
    assert found[:, :4].mean() == pytest.approx((5 * 64 + 2) / 7, rel=0.05)


def test_own_noise_is_pooled_within_groups() -> None:
    groups = [[1.0, 1.2], [5.0, 5.1, 5.5], [7.0], []]
    expected = (np.var(groups[0], ddof=1) + 2 * np.var(groups[1], ddof=1)) / 3
    assert own_noise(groups) == (pytest.approx(expected), 3)
    assert own_noise([[1.0], []]).df == 0


def test_what_choices_miss_adds_up_within_a_side_and_not_between_sides() -> None:
    choices = [Selection(0.04, 8.0), Selection(0.01, 8.0), Selection(0.09, 8.0)]
    one_sided = combined(choices[:2], [0.5, 0.5])
    assert one_sided.variance == pytest.approx((0.5 * 0.2 + 0.5 * 0.1) ** 2)
    both = combined(choices, [0.5, 0.5, -1.0])
    assert both.variance == pytest.approx(one_sided.variance + 0.09)
    assert combined(choices[:1], [-2.0]) == (pytest.approx(0.16), pytest.approx(8.0))


def test_the_degrees_of_freedom_of_a_sum_are_those_of_its_spread() -> None:
    """Of S = (sum w b)^2, with b^2 chi-square variables over their df: 2 E[S]^2 / Var[S], about."""
    rng, df = np.random.default_rng(0), np.array([40.0, 80.0])
    squares = np.array([0.04, 0.09]) * rng.chisquare(df, (400_000, 2)) / df
    sums = (np.sqrt(squares) @ np.array([0.5, 0.5])) ** 2
    found = combined([Selection(0.04, 40.0), Selection(0.09, 80.0)], [0.5, 0.5])
    assert found.variance == pytest.approx(sums.mean(), rel=0.01)
    assert found.df == pytest.approx(2 * sums.mean() ** 2 / sums.var(), rel=0.05)


def test_a_contrast_of_groups_is_shown_in_few_studies_of_equal_variants() -> None:
    """Every arm misses its best rate by as much as a mean square says; three against three."""
    rng, regret, error = np.random.default_rng(0), 0.03, 0.01
    weights = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0]) / 3
    runs = np.array([regret] * 3 + [0.0] * 3)[:, None] + error * rng.standard_normal((2_000, 6, 5))
    added = [regret**2] * 6
    found = welch(runs.mean(-1), runs.var(-1, ddof=1), np.full(6, 5), weights, added=added, added_df=20.0)
    assert (found.p < 0.05).mean() < 0.05


def test_of_two_rates_the_expected_square_of_the_regret_is_that_of_a_cut_normal() -> None:
    error, gap = 0.02, 0.015
    apart = stats.norm(-gap, error * np.sqrt(2))
    expected = apart.expect(lambda regret: regret**2, lb=0)
    for rates in (None, [0.0, 1.0]):
        assert added_variance([1.0, 1.0 + gap], error, 1e6, 0, rates) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("df", [3.0, 4.0, 7.0, 20.0])
@pytest.mark.parametrize("chosen", [0, 1, 3])
@pytest.mark.parametrize("is_curved", [True, False])
@pytest.mark.ci
def test_the_integral_is_the_mean_over_random_draws(df: float, chosen: int, is_curved: bool) -> None:
    """At an edge, beside one, and within; rates that are not evenly spaced; scipy's t in place of a scale."""
    means = _parabola(RATES[chosen] + 0.2) + np.array([0.004, -0.007, 0.006, 0.001])
    error, rng, draws = 0.03 if is_curved else 0.2, np.random.default_rng(7), 400_000
    scales = stats.invgamma(df / 2 - 1, scale=df / 2).rvs(draws, random_state=rng)[:, None] ** 0.5
    units = means / (error * scales) + rng.standard_normal((draws, 4))
    best = lowest(RATES, units).loss if is_curved else units.min(-1)
    squares = df / (df - 2) * error**2 * (units[:, chosen] - best) ** 2
    found = added_variance(means, error, df, chosen, RATES if is_curved else None)
    assert found == pytest.approx(squares.mean(), abs=4 * squares.std() / np.sqrt(draws))
    assert squares.std() / np.sqrt(draws) < 0.01 * found


def test_two_degrees_of_freedom_leave_the_regret_without_a_bound() -> None:
    assert added_variance([1.0, 1.1], 0.02, 2.0, 0) == np.inf


def test_without_noise_the_regret_is_what_the_spacing_hides() -> None:
    hidden = 0.1 * np.log(1.5) ** 2
    for place, chosen, expected in ((3e-3, 1, hidden**2), (6e-3, 2, 0.0)):
        found = added_variance(_parabola(np.log(place)), 0.0, 10, chosen, RATES)
        assert found == pytest.approx(expected, abs=1e-8)


def test_of_two_rates_the_choice_falls_as_their_gap_over_its_error() -> None:
    found = choice_share([1.0, 1.03], 0.02, 0)
    assert found == pytest.approx(stats.norm.cdf(0.03 / 0.02 / np.sqrt(2)), abs=1e-6)


def test_shares_of_all_rates_are_those_of_draws_and_add_up_to_one() -> None:
    means, rng = np.array([1.0, 1.01, 1.05, 0.99]), np.random.default_rng(0)
    drawn = np.bincount((means + 0.02 * rng.standard_normal((200_000, 4))).argmin(-1)) / 200_000
    found = [choice_share(means, 0.02, place) for place in range(4)]
    assert found == pytest.approx(drawn, abs=0.004)
    assert sum(found) == pytest.approx(1, abs=1e-6)


def test_what_a_threefold_wrong_rate_costs() -> None:
    optimum = np.log(4e-3)
    found = curve(RATES, _parabola(optimum), 1e-4, 20)
    assert found.optimum.value == pytest.approx(optimum)
    cost = 0.1 * np.log(3) ** 2
    for side in (found.lower, found.higher):
        assert side is not None
        assert side.value == pytest.approx(cost)
        assert side.interval is not None
        low, high = side.interval
        assert 0.9 * cost < low < cost < high < 1.1 * cost
    assert curve(RATES, _parabola(np.log(1.5e-2)), 1e-4, 20).higher is None


def test_the_interval_of_the_loss_at_a_rate_that_was_tried_is_students() -> None:
    """The lowest of a parabola at its middle rate hangs on the loss there alone."""
    found = curve([0.0, 1.0, 2.0], [1.1, 1.0, 1.1], 0.01, 5).loss.interval
    assert found == pytest.approx(stats.t(5, loc=1.0, scale=0.01).interval(0.95))


def test_an_optimum_at_the_end_of_what_was_searched_has_no_interval() -> None:
    found = curve(RATES, _parabola(np.log(1e-1)), 1e-4, 20).optimum
    assert (found.value, found.interval) == (pytest.approx(RATES[-1] + np.diff(RATES)[-1] / 2), None)
    assert found.exp.interval is None


def test_intervals_of_the_optimum_and_of_costs_hold_the_truth() -> None:
    rng, held = np.random.default_rng(0), []
    for _ in range(300):
        place = rng.uniform(RATES[1], RATES[2])
        found = curve(RATES, _parabola(place) + 0.01 * rng.standard_normal(4), 0.01, 1e6)
        truths = ((found.optimum, place), (found.loss, 3.0))
        held.append([x.interval is not None and x.interval[0] <= y <= x.interval[1] for x, y in truths])
    assert np.mean(held, axis=0).min() >= 0.92


def test_the_expected_best_is_the_mean_over_all_subsets() -> None:
    losses = [3.0, 1.0, 2.5, 7.0, 2.0]
    expected = [np.mean([min(subset) for subset in combinations(losses, k)]) for k in range(1, 6)]
    assert expected_best(losses) == pytest.approx(expected)
    assert expected_best([1.0, np.inf]).tolist() == [np.inf, 1.0]


def test_added_variance_is_that_of_a_further_arm() -> None:
    rng = np.random.default_rng(0)
    arms = [rng.normal(0, sd, n) for sd, n in ((1, 4), (2, 6), (3, 5))]
    means, variances, counts = zip(*[(a.mean(), a.var(ddof=1), len(a)) for a in arms], strict=True)
    three = welch(means, variances, counts, [1, -1, 1])
    two = welch(
        means[:2], variances[:2], counts[:2], [1, -1], added=[variances[2] / 5, 0], added_df=[4, np.inf]
    )
    assert (two.standard_error, two.df) == (pytest.approx(three.standard_error), pytest.approx(three.df))


STUDIES = 300
FEW = 5.0 + 100 * 2.6 * np.sqrt(0.05 * 0.95 / STUDIES)
"""Percent that 5% stay below in all but half a percent of simulations."""


@pytest.mark.parametrize(
    "setting",
    [
        BASE,
        replace(BASE, tuning_seeds=2, seeds=12),
        replace(BASE, spread=0.005, optima="between"),
        replace(BASE, steeper=1.0, factor=10**0.5, spread=0.005, optima="between"),
        replace(BASE, unstable=5.0, spread=0.005),
        replace(BASE, factor=3.0, tuning_seeds=2, seeds=5, uneven=1.0, cost=0.2),
    ],
)
def test_variants_equal_at_their_own_best_are_called_different_in_few_studies(setting: Setting) -> None:
    found = simulate(setting, STUDIES, np.random.default_rng(0))
    assert found.plain.false_differences > FEW
    assert found.tuned.false_differences < FEW


def test_what_differs_by_the_margin_is_called_equivalent_in_few_studies() -> None:
    """A regret has a direction, and one-sided tests at the usual level would be wrong in 9% of studies."""
    at = replace(BASE, spread=0.005, cost=0.01, tuning_seeds=10, seeds=12, optima="between", difference=-0.02)
    found = simulate(at, 2_000, np.random.default_rng(0))
    assert found.tuned.equivalent < 5.0 + 100 * 2.6 * np.sqrt(0.05 * 0.95 / 2_000)


def test_the_shared_rate_calls_different_what_equal_tuning_calls_equivalent_and_the_reverse() -> None:
    equal = replace(BASE, factor=2.0, spread=0.005, optima="threefold")
    found = simulate(equal, STUDIES, np.random.default_rng(0))
    assert found.shared.false_differences > 95
    assert found.tuned.false_differences < FEW
    assert found.tuned.equivalent > 80
    found = simulate(REVERSED[0], STUDIES, np.random.default_rng(0))
    assert found.shared.true_differences < 10
    assert found.tuned.true_differences > 95
