"""What a tuning knows: against scipy, random draws, and parabolas that are known; its level, simulated."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from benchmarks.tuning_error_rates import BASE, FINE, Setting, simulate
from report.statistics.tuning_curves import (
    DOWNWARD,
    Curves,
    Selection,
    chosen_places,
    combined,
    curve,
    fit_curves,
    moderated_noise,
    own_noise,
    squared_regret,
    squared_regret_of_few,
)

RATES = np.log([1e-3, 2e-3, 6e-3, 2e-2])


def _parabola(place: float, cost: float = 0.1) -> np.ndarray:
    return 3.0 + cost * (RATES - place) ** 2


def _curves(means: np.ndarray, error: float, df: float = 20.0, rates: np.ndarray = RATES) -> Curves:
    """Of one variant, from two tuning seeds alike, so that neither growth nor correlation is seen."""
    losses = np.repeat(means[None, :, None], 2, axis=-1)
    return fit_curves(rates, losses, [int(np.nanargmin(means))], [2 * error**2], [df]).of(0)


@pytest.mark.parametrize("rate", [1.1e-3, 2.9e-3, 1e-2, 2.2e-2])
def test_the_lowest_of_a_parabola_is_found_between_rates_that_are_not_evenly_spaced(rate: float) -> None:
    means = _parabola(np.log(rate))
    found = curve(_curves(means, 1e-4), RATES[means.argmin()])
    assert found.optimum == pytest.approx(rate)
    assert found.loss == pytest.approx(3.0)


EVEN = np.log(1e-3 * 2.0 ** np.arange(7))


def test_the_curve_goes_through_the_five_nearest_rates_that_are_usable() -> None:
    means = 3.0 + 0.1 * (EVEN - EVEN[3]) ** 2
    assert (_curves(means, 0.01, rates=EVEN).fit[0] != 0).tolist() == [False, *[True] * 5, False]
    diverged = means.copy()
    diverged[4] = np.nan
    assert (_curves(diverged, 0.01, rates=EVEN).fit[0] != 0).tolist() == [*[True] * 4, False, True, False]


def test_a_collapsed_rate_sets_nothing() -> None:
    means = 3.0 + 0.1 * (EVEN[:6] - EVEN[3]) ** 2
    collapsed = np.append(means, 9.0)
    collapsed[5] = 6.0
    missing = np.append(means, np.nan)
    missing[5] = np.nan
    found, expected = (squared_regret(_curves(x, 0.01, rates=EVEN)) for x in (collapsed, missing))
    assert found == pytest.approx(expected)


def test_the_fit_is_that_of_a_posterior_with_a_prior_on_the_cubic_term() -> None:
    """Normal equations by hand, from the errors that the curve says it has."""
    rng = np.random.default_rng(5)
    spread = 0.01 * 1.5 ** np.arange(-3, 4)
    losses = 3.0 + 0.1 * (EVEN - EVEN[3]) ** 2 + rng.standard_normal((40, 2, 7)) * spread
    losses = losses.swapaxes(1, 2)
    chosen = losses.mean(-1).argmin(-1)
    found = fit_curves(EVEN, losses, chosen, np.full(40, 1e-4), np.full(40, 1e9))
    grown = np.diff(np.log(found.errors), axis=-1)
    assert grown == pytest.approx(np.full((40, 6), grown[0, 0]))  # one slope for all
    assert grown[0, 0] == pytest.approx(np.log(1.5), abs=0.15)
    i = int(np.flatnonzero(chosen == 3)[0])
    x, y = EVEN - EVEN[3], losses[i].mean(-1)
    near = slice(1, 6)
    errors = np.hypot(found.errors[i], 0.2 * (y - y[3]))[near]
    design = np.vander(x[near], 4) / errors[:, None]
    flat, *_ = np.linalg.lstsq(design[:, 1:], y[near] / errors, rcond=None)
    prior = np.append(design, [[1 / (0.3 * flat[0]), 0, 0, 0]], 0)
    fit, *_ = np.linalg.lstsq(prior, np.append(y[near] / errors, 0.0), rcond=None)
    assert found.coefficients[i] == pytest.approx(fit[1:], rel=1e-3)


def test_of_flat_curves_the_choice_misses_a_quarter_less_than_the_lowest_mean_does() -> None:
    rng = np.random.default_rng(11)
    best = rng.uniform(EVEN[2], EVEN[4], (500, 6, 1))
    true = 0.03 * (EVEN - best) ** 2
    losses = true[..., None] + 0.01 * rng.standard_normal((500, 6, 7, 2))
    squares = [
        np.take_along_axis(true, places[..., None], -1) ** 2
        for places in (chosen_places(EVEN, losses), losses.mean(-1).argmin(-1))
    ]
    by_curve, by_mean = (np.sqrt(x.mean()) for x in squares)
    assert by_curve < 0.75 * by_mean


def test_no_rate_is_chosen_that_is_clearly_worse_or_has_diverged() -> None:
    """A cliff pulls the curve to the left of the best rate, and its lowest mean is far from noise."""
    means = np.array([0.3, 0.2, 0.1, 0.0, 0.5, 3.0, 3.0])
    losses = means[:, None] + np.array([-0.001, 0.001])
    assert chosen_places(EVEN, losses[None]).tolist() == [3]
    flat = np.repeat([[0.0, 0.1]], 7, axis=0) + 1e-3 * (np.arange(7) - 4.2)[:, None] ** 2
    assert chosen_places(EVEN, flat[None]).tolist() == [4]
    flat[4, 1] = np.nan
    assert chosen_places(EVEN, flat[None]).tolist() == [5]
    assert chosen_places(EVEN, means[None, :, None]).tolist() == [3]  # one seed
    assert chosen_places(EVEN[:2], losses[None, 2:4]).tolist() == [1]  # two rates


def test_a_steady_variant_is_chosen_for_alike_beside_variants_that_are_not() -> None:
    means, signs = np.array([0.06, 0.0, 0.03, 0.012, 0.03]), np.array([1, 1, -1, 1, -1])
    steady = means[:, None] + np.outer(signs, [-0.002, 0.002])
    noisy = np.linspace(0.2, 0.0, 5)[:, None] + np.array([-0.05, 0.05])
    rates = EVEN[:5]
    assert chosen_places(rates, steady[None]).tolist() == [1]
    assert chosen_places(rates, np.stack([steady, noisy, noisy]))[0] == 1


def _sharing(correlation: float, variants: int, rng: np.random.Generator) -> float:
    """How much smaller the covariance of the curve is than it would be of seeds apart, in the median."""
    shared = np.sqrt(correlation) * rng.standard_normal((200, variants, 1, 2))
    runs = shared + np.sqrt(1 - correlation) * rng.standard_normal((200, variants, 7, 2))
    losses = 3.0 + 0.1 * (EVEN - EVEN[3])[:, None] ** 2 + 0.02 * runs
    chosen = losses.mean(-1).argmin(-1)
    found, apart = (
        fit_curves(EVEN, x, chosen, np.full((200, variants), 4e-4), np.full((200, variants), 1e9))
        for x in (losses, np.repeat(losses.mean(-1, keepdims=True), 2, -1))
    )
    return float(np.median(found.covariance[..., 1, 1] / apart.covariance[..., 1, 1]))


def test_what_seeds_share_cancels_as_far_as_it_is_sure() -> None:
    rng = np.random.default_rng(0)
    assert _sharing(0.0, 10, rng) == pytest.approx(1.0, abs=0.15)
    assert 0.35 < _sharing(0.65, 40, rng) < _sharing(0.65, 3, rng) < 1.05


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


def test_own_noise_is_pooled_within_groups() -> None:
    groups = [[1.0, 1.2], [5.0, 5.1, 5.5], [7.0], []]
    expected = (np.var(groups[0], ddof=1) + 2 * np.var(groups[1], ddof=1)) / 3
    assert own_noise(groups) == (pytest.approx(expected), 3)
    assert own_noise([[1.0], []]).df == 0


def test_the_degrees_of_freedom_of_a_sum_are_those_of_its_spread() -> None:
    """Of S = (sum w b)^2, with b^2 chi-square variables over their df: 2 E[S]^2 / Var[S], about."""
    rng, df = np.random.default_rng(0), np.array([40.0, 80.0])
    squares = np.array([0.04, 0.09]) * rng.chisquare(df, (400_000, 2)) / df
    sums = (np.sqrt(squares) @ np.array([0.5, 0.5])) ** 2
    found = combined([Selection(0.04, 40.0), Selection(0.09, 80.0)], [0.5, 0.5])
    assert found.variance == pytest.approx(sums.mean(), rel=0.01)
    assert found.df == pytest.approx(2 * sums.mean() ** 2 / sums.var(), rel=0.05)


@pytest.mark.parametrize("df", [3.0, 8.0, 1e5])
def test_of_two_rates_the_expected_square_of_the_regret_is_that_of_a_cut_t(df: float) -> None:
    error, gap = 0.02, 0.015
    apart = stats.t(df, -gap, error * np.sqrt(2))
    expected, _ = integrate.quad(lambda regret: regret**2 * apart.pdf(regret), 0, np.inf)
    assert squared_regret_of_few([1.0, 1.0 + gap], error, df, 0) == pytest.approx(expected, rel=1e-6)
    three = squared_regret_of_few([1.0, 1.0 + gap, 1.0 + gap], error, df, 0)
    assert three == pytest.approx(2 * expected, rel=1e-6)


@pytest.mark.parametrize(("df", "place"), [(20.0, 1e-3), (3.0, 3e-3), (7.0, 6e-3), (20.0, 2.2e-2)])
def test_the_integral_is_the_mean_over_random_curves(df: float, place: float) -> None:
    """At an edge, beside one, and within; the lowest of each curve is looked for on a fine grid."""
    means = _parabola(np.log(place)) + np.array([0.004, -0.007, 0.006, 0.001])
    found, rng, draws = _curves(means, 0.02, df), np.random.default_rng(7), 200_000
    scale = np.sqrt(df / rng.chisquare(df, draws))[:, None]
    normal = rng.multivariate_normal([0, 0], found.covariance, draws)
    a, b = (found.coefficients[:2] + scale * normal).T
    x = np.linspace(found.low, found.high, 301)
    depths = np.zeros(draws)
    for place_of in x:
        depths = np.maximum(depths, -(a * place_of + b) * place_of)
    weights = np.where(a > 0, 1.0, DOWNWARD)
    squares = weights * depths**2 / weights.mean()
    if df > 4:  # below, squares have no variance
        error = squares.std() / np.sqrt(draws)
        assert squared_regret(found) == pytest.approx(squares.mean(), abs=4 * error + 0.02 * squares.mean())
    root = np.sqrt(squared_regret(found))
    assert root == pytest.approx(np.sqrt(squares.mean()), rel=0.3 if df < 4 else 0.05)


def test_the_integral_of_a_variant_is_the_same_beside_others() -> None:
    rng = np.random.default_rng(0)
    losses = 3.0 + 0.05 * rng.standard_normal((5, 4, 2))
    found = fit_curves(RATES, losses, losses.mean(-1).argmin(-1), np.full(5, 1e-3), np.full(5, 7.0))
    together = squared_regret(found)
    assert [float(squared_regret(found.of(i))) for i in range(5)] == pytest.approx(together.tolist())


def test_two_degrees_of_freedom_leave_the_regret_without_a_bound() -> None:
    assert squared_regret_of_few([1.0, 1.1], 0.02, 2.0, 0) == np.inf
    assert squared_regret(_curves(_parabola(np.log(3e-3)), 0.02, 2.0)) == np.inf


def test_without_noise_the_regret_is_near_what_the_spacing_hides() -> None:
    means = 3.0 + 0.1 * (EVEN - EVEN[3] - 0.3) ** 2
    assert squared_regret(_curves(means, 0.0, rates=EVEN)) == pytest.approx((0.1 * 0.3**2) ** 2, rel=0.35)
    assert squared_regret(_curves(3.0 + 0.1 * (EVEN - EVEN[3]) ** 2, 0.0, rates=EVEN)) < 1e-6


def test_the_regret_is_no_less_than_what_the_mean_at_the_choice_is_above_the_lowest() -> None:
    """A fall up to a step, whose curve is lowest a rate before the lowest mean."""
    means = np.array([0.06, 0.04, 0.02, 0.0, 0.1, 0.12, 0.14])
    losses = np.repeat(means[None, :, None], 2, axis=-1)
    at_choice, at_lowest = (
        float(squared_regret(fit_curves(EVEN, losses, [place], [1e-6], [20.0]))[0]) for place in (2, 3)
    )
    assert at_choice >= 0.02**2
    assert at_lowest < 0.02**2


def test_what_a_threefold_wrong_rate_costs() -> None:
    optimum = np.log(4e-3)
    means = _parabola(optimum)
    found = curve(_curves(means, 1e-4), RATES[means.argmin()])
    assert found.optimum == pytest.approx(np.exp(optimum))
    assert (found.lower, found.higher) == pytest.approx((0.1 * np.log(3) ** 2,) * 2)
    assert curve(_curves(_parabola(np.log(1.5e-2)), 1e-4), RATES[-1]).higher is None


STUDIES = 300
FEW = 5.0 + 100 * 2.6 * np.sqrt(0.05 * 0.95 / STUDIES)
"""Percent that 5% stay below in all but half a percent of simulations."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [
        replace(BASE, tuning_seeds=2, seeds=12),
        replace(BASE, steeper=1.0, factor=10**0.5, spread=0.005, optima="between"),
        replace(BASE, factor=3.0, tuning_seeds=2, seeds=5, uneven=1.0, cost=0.2),
        replace(FINE, growth=2.0, steeper=4.0),
    ],
)
def test_variants_equal_at_their_own_best_are_called_different_in_few_studies(setting: Setting) -> None:
    found = simulate(setting, STUDIES, np.random.default_rng(0))
    assert found.plain.false_differences > FEW
    assert found.tuned.false_differences < FEW


@pytest.mark.slow
def test_what_differs_by_the_margin_is_called_equivalent_in_few_studies() -> None:
    """A regret has a direction, and one-sided tests at the usual level would be wrong in 9% of studies."""
    at = replace(BASE, spread=0.005, cost=0.01, tuning_seeds=10, seeds=12, optima="between", difference=-0.02)
    found = simulate(at, 2_000, np.random.default_rng(0))
    assert found.tuned.equivalent < 5.0 + 100 * 2.6 * np.sqrt(0.05 * 0.95 / 2_000)
