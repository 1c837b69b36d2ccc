"""Power laws against known ones, against scipy's Huber fit, and exactly where nothing is left over."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq, least_squares

from eval.significance.statistics.scaling_laws import (
    HUBER_DELTA,
    fit_power_law,
    law_interval,
    predict_largest,
)


def scipys(sizes: np.ndarray, losses: np.ndarray) -> tuple[float, np.ndarray]:
    """The smallest Huber loss that scipy finds from many starts, with E, log A (at the mean) and alpha."""
    x, y = np.log(sizes) - np.log(sizes).mean(), np.log(losses)
    found = []
    for exponent in np.linspace(0.05, 1.5, 8):
        for floor in (-2.0, 0.0, 0.5):
            start = [floor, 0.0, exponent]
            run = least_squares(
                lambda t: np.logaddexp(t[0], t[1] - t[2] * x) - y,
                start, loss="huber", f_scale=HUBER_DELTA, ftol=1e-12, xtol=1e-12, gtol=1e-12,
                bounds=([np.log(1e-3), -30, -5], [5, 30, 5]),
            )  # fmt: skip
            found.append((run.cost, run.x))
    return min(found, key=lambda x: x[0])


@pytest.mark.parametrize(
    ("floor", "scale", "exponent"), [(1.69, 406.4, 0.34), (0.5, 30.0, 0.15), (2, 9, 0.6)]
)
@pytest.mark.parametrize("num_sizes", [3, 4, 7])
def test_a_law_without_noise_is_found_again(floor: float, scale: float, exponent: float, num_sizes: int):
    sizes = np.geomspace(1e5, 1e7, num_sizes)
    law = fit_power_law(sizes, floor + scale * sizes**-exponent)
    assert law.floor == pytest.approx(floor, rel=1e-3)
    assert law.scale == pytest.approx(scale, rel=1e-2)
    assert law.exponent == pytest.approx(exponent, rel=1e-3)
    assert law.at([1e8]) == pytest.approx([floor + scale * 1e8**-exponent], rel=1e-3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.ci
def test_noisy_sizes_give_what_scipy_gives(seed: int):
    rng = np.random.default_rng(seed)
    sizes = np.geomspace(1e5, 1e7, 6)
    losses = (1.5 + 60 * sizes**-0.3) * np.exp(0.005 * rng.normal(size=6))
    law = fit_power_law(sizes, losses)
    cost, (log_floor, _, exponent) = scipys(sizes, losses)
    assert law.objective <= cost * 1.0001
    assert law.floor == pytest.approx(np.exp(log_floor), rel=5e-3)
    assert law.exponent == pytest.approx(exponent, rel=5e-3)


def test_three_sizes_are_met_exactly():
    sizes, losses = np.array([1e5, 5e5, 2e6]), np.array([3.2, 2.6, 2.3])
    log = np.log(sizes)

    def off(exponent: float) -> float:
        u = np.exp(-exponent * (log - log[0]))
        return (losses[0] - losses[1]) / (losses[1] - losses[2]) - (u[0] - u[1]) / (u[1] - u[2])

    law = fit_power_law(sizes, losses)
    assert law.exponent == pytest.approx(brentq(off, 0.01, 2), rel=1e-4)
    assert law.at(sizes) == pytest.approx(losses, rel=1e-5)


def test_without_a_floor_it_is_a_line_in_logarithms():
    law = fit_power_law([1e5, 1e6], [[4.0, 2.0], [3.0, 2.7]], has_floor=False)
    assert law.exponent == pytest.approx(np.log10([2.0, 3.0 / 2.7]))
    assert law.floor == pytest.approx([0, 0])
    assert law.at([1e7])[:, 0] == pytest.approx([1.0, 2.43])


def test_losses_that_do_not_fall_with_size_have_a_finite_fit():
    for losses in ([2.0, 2.0, 2.0], [2.0, 2.1, 2.4], [3.0, 2.0, 2.0]):
        law = fit_power_law([1e5, 5e5, 2e6], losses)
        assert np.isfinite([law.floor, law.scale, law.exponent, law.objective]).all()


def test_the_interval_of_a_line_is_that_of_its_slope():
    """Without E and with two sizes alpha is a difference of logarithms: the delta method, with Welch's df."""
    losses = [np.array([3.0, 3.02, 2.99]), np.array([2.5, 2.52, 2.53, 2.49])]
    found = law_interval([1e5, 1e6], losses, lambda law: law.exponent, has_floor=False)
    parts = np.array([x.var(ddof=1) / len(x) / x.mean() ** 2 / np.log(10) ** 2 for x in losses])
    df = parts.sum() ** 2 / (parts**2 / [2, 3]).sum()
    middle = np.log10(losses[0].mean() / losses[1].mean())
    assert found == pytest.approx(stats.t(df, middle, np.sqrt(parts.sum())).interval(0.95), rel=1e-3)


def test_of_single_runs_there_is_no_interval():
    assert (
        law_interval([1e5, 1e6], [np.ones(1), np.ones(2)], lambda law: law.exponent, has_floor=False) is None
    )


def test_the_largest_is_predicted_from_the_others():
    rng = np.random.default_rng(0)
    sizes = [1e5, 3e5, 9e5, 2.7e6]
    truth = np.array([1.5 + 60 * x**-0.3 for x in sizes])
    losses = [loss + 0.002 * rng.normal(size=4) for loss in truth]
    found = predict_largest(sizes, losses)
    assert found is not None
    assert found.has_floor
    assert found.predicted == pytest.approx(truth[-1], abs=0.03)
    assert found.observed == pytest.approx(np.mean(losses[-1]))
    assert found.error_interval is not None
    assert found.error_interval[0] < 0 < found.error_interval[1]
    assert found.in_spreads == pytest.approx((found.predicted - found.observed) / np.std(losses[-1], ddof=1))
    # The largest must not have been used.
    moved = predict_largest(sizes, [*losses[:-1], losses[-1] + 1])
    assert moved is not None
    assert moved.predicted == found.predicted


def test_three_sizes_predict_without_a_floor_and_two_not_at_all():
    losses = [np.array([4.0, 4.0]), np.array([2.0, 2.0]), np.array([1.5, 1.5])]
    found = predict_largest([1e5, 1e6, 1e7], losses)
    assert found is not None
    assert not found.has_floor
    assert found.predicted == pytest.approx(1.0)
    assert found.error == pytest.approx(-0.5)
    assert np.isnan(found.in_spreads)
    assert predict_largest([1e5, 1e6], losses[:2]) is None


def test_more_noise_gives_wider_intervals():
    rng = np.random.default_rng(0)
    sizes = np.array([1e5, 5e5, 2e6])
    widths = []
    for sd in (0.001, 0.02):
        losses = [1.5 + 60 * x**-0.3 + sd * rng.normal(size=5) for x in sizes]
        low, high = law_interval(list(sizes), losses, lambda law: law.exponent) or (0, 0)
        widths.append(high - low)
    assert widths[1] > 3 * widths[0]
