"""The spread of a pilot's recipes: against scipy's distributions, and in simulated pilots."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.pilot import (
    Spread,
    difference_interval,
    pooled_spread,
    predicted_spread,
    promised_spreads,
    seeds_to_detect,
    spread_of,
)

RAW_BIAS = 1.7
"""How far off the smallest of twelve is, at the least."""


def _found(sds: np.ndarray, df: int) -> list[Spread]:
    return [spread_of(float(sd), df) for sd in sds]


def test_the_spread_is_pooled_and_has_the_interval_of_chi_square() -> None:
    first, second = [3.00, 3.02, 3.07], [3.40, 3.41]
    found = pooled_spread([first, second, [9.0]], 0.95)
    assert found is not None
    variance = (2 * np.var(first, ddof=1) + np.var(second, ddof=1)) / 3
    assert (found.sd**2, found.df) == (pytest.approx(variance), 3)
    low, high = (np.sqrt(3 * variance / stats.chi2.ppf(p, 3)) for p in (0.975, 0.025))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.parametrize("arms", [[[1.0], [2.0]], [[1.0, 1.0], [2.0, 2.0]], []])
def test_one_run_an_arm_or_equal_runs_have_no_spread(arms: list[list[float]]) -> None:
    assert pooled_spread(arms) is None


@pytest.mark.parametrize(("sd", "effect"), [(0.008, 0.02), (0.1, 0.02), (0.03, 0.05)])
def test_seeds_to_detect_are_the_fewest_with_the_power_of_a_noncentral_t(sd: float, effect: float) -> None:
    def power(n: int) -> float:
        df, shift = 2 * n - 2, effect / (sd * np.sqrt(2 / n))
        critical = stats.t.ppf(0.975, df)
        return float(stats.nct.sf(critical, df, shift) + stats.nct.cdf(-critical, df, shift))

    found = seeds_to_detect(effect, sd, 0.95)
    assert found is not None
    assert power(found) >= 0.8 > power(found - 1)


def test_spreads_of_recipes_alike_are_drawn_together() -> None:
    """Twelve variances as chance has them: the logarithm's quantiles at chi-square with 4 df, of sd .01."""
    variances = 1e-4 * stats.chi2.ppf((np.arange(12) + 0.5) / 12, 4) / 4
    found = promised_spreads(_found(np.sqrt(variances), 4))
    sds = [one.sd for one in found]
    assert max(sds) < 1.3 * min(sds)
    assert np.mean(sds) == pytest.approx(0.01, rel=0.15)


def test_spreads_far_apart_stay_apart() -> None:
    promised = promised_spreads(_found(np.array([0.166, 0.008]), 4))
    assert promised[0].sd > 8 * promised[1].sd
    assert promised[1].low < 0.008 < promised[1].high < 0.05


def test_one_recipe_alone_keeps_its_spread() -> None:
    """Of a variance of 4 df the logarithm lies below the true one by what scipy's loggamma says."""
    (found,) = promised_spreads(_found(np.array([0.01]), 4))
    below = stats.loggamma(2).mean() - np.log(2)
    assert found.log_variance == pytest.approx(2 * np.log(0.01) - below)
    assert found.uncertainty == pytest.approx(stats.loggamma(2).var())
    assert found.low < found.sd < found.high


def test_intervals_of_differences_cover_and_gain_from_other_recipes() -> None:
    random, df = np.random.default_rng(7), 4
    covered, widths, alone = [], [], []
    for _ in range(500):
        true = 0.01 * np.exp(0.4 * random.normal(size=12))
        found = promised_spreads(_found(true * np.sqrt(random.chisquare(df, 12) / df), df))
        estimate = true[0] * np.sqrt(2 / 3) * random.normal()
        low, high = difference_interval(estimate, (3, 3), found[0])
        covered.append(low < 0 < high)
        widths.append(high - low)
        alone.append(2 * stats.t.ppf(0.975, df) * true[0] * np.sqrt(2 / 3 * random.chisquare(df) / df))
    assert 0.92 < np.mean(covered) < 0.985
    assert np.mean(widths) < 0.9 * np.mean(alone)


@pytest.mark.parametrize("unlike", [0.0, np.log(1.5), np.log(3)])
def test_the_recipe_chosen_keeps_its_promise(unlike: float) -> None:
    """Simulated pilots of 12 recipes: the smallest spread misleads, the smallest promise does not."""
    random, df, later = np.random.default_rng(5), 4, 10
    raw, promised, kept = [], [], []
    for _ in range(600):
        true = 0.01 * np.exp(unlike * random.normal(size=12))
        seen = true * np.sqrt(random.chisquare(df, 12) / df)
        found = promised_spreads(_found(seen, df))
        place = int(np.argmin([one.sd for one in found]))
        raw.append(np.log(true[np.argmin(seen)] / seen.min()))
        promised.append(np.log(true[place] / found[place].sd))
        low, high = predicted_spread(found[place], later)
        kept.append(low < true[place] * np.sqrt(random.chisquare(later) / later) < high)
    assert 0.7 < np.exp(np.mean(promised)) < 1.3
    assert np.mean(kept) > 0.9
    if not unlike:
        assert np.exp(np.mean(raw)) > RAW_BIAS
