"""Statistics of arrays against scipy, plain loops and simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from eval.significance.statistics.bootstrap import bootstrap_interval, resample
from eval.significance.statistics.corrections import benjamini_hochberg, holm
from eval.significance.statistics.effect_size import hedges_g, probability_of_superiority
from eval.significance.statistics.equivalence import equivalence_p, equivalence_power, smallest_margin
from eval.significance.statistics.permutation import permutation_test, sign_flip_test
from eval.significance.statistics.power import (
    balanced,
    detection_power,
    minimum_detectable_effect,
    runs_to_detect,
    runs_to_show_equivalence,
)
from eval.significance.statistics.source_study import source_study_interval
from eval.significance.statistics.welch import welch, welch_anova_p

SIZES = [(2, 2), (3, 3), (6, 5), (12, 4)]


def arms(num_a: int, num_b: int, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(100 * num_a + num_b)
    return rng.normal(60 + shift, 3, num_a), rng.normal(60, 1, num_b)


def of_cells(*cells: np.ndarray, weights: list[float]):
    return welch([c.mean() for c in cells], [c.var(ddof=1) for c in cells], [len(c) for c in cells], weights)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm([0.02, None, 0.03]) == [0.04, None, 0.04]


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=5))
def test_holm_equals_the_closed_test_of_bonferroni(p_values: list[float]):
    """Holm is the closure of Bonferroni: a hypothesis' p is the largest over all subsets that hold it."""
    indices = range(len(p_values))
    expected = [
        max(
            min(1.0, len(subset) * min(p_values[j] for j in subset))
            for size in range(1, len(p_values) + 1)
            for subset in itertools.combinations(indices, size)
            if i in subset
        )
        for i in indices
    ]
    assert holm(p_values) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1.0), min_size=1, max_size=30))
def test_benjamini_hochberg_equals_scipy(p_values: list[float]):
    assert benjamini_hochberg(p_values) == pytest.approx(stats.false_discovery_control(p_values).tolist())


def test_benjamini_hochberg_leaves_out_what_is_not_estimable():
    assert benjamini_hochberg([0.01, None, 0.04]) == pytest.approx([0.02, None, 0.04])


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_welch_anova_equals_scipy(groups: int):
    rng = np.random.default_rng(groups)
    cells = [rng.normal(group / 2, 1 + group, 4 + group) for group in range(groups)]
    expected = stats.f_oneway(*cells, equal_var=False).pvalue
    squares = [cell.var(ddof=1) / len(cell) for cell in cells]
    found = welch_anova_p([cell.mean() for cell in cells], squares, [len(cell) - 1 for cell in cells])
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("margin", [0.5, 1.0, 4.0])
def test_equivalence_equals_two_one_sided_tests_of_scipy(sizes: tuple[int, int], margin: float):
    a, b = arms(*sizes)
    above = stats.ttest_ind(a + margin, b, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(a - margin, b, equal_var=False, alternative="less").pvalue
    found = of_cells(a, b, weights=[1, -1])
    estimate, error, df = float(found.estimate), float(found.standard_error), float(found.df)
    assert equivalence_p(estimate, error, df, margin) == pytest.approx(max(above, below), rel=1e-9)
    # At the smallest margin that passes, p is the level; and the 90% interval ends there.
    smallest = smallest_margin(estimate, error, df, 0.05)
    assert equivalence_p(estimate, error, df, smallest) == pytest.approx(0.05)
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.90)
    assert smallest == pytest.approx(max(abs(interval.low), abs(interval.high)))


@pytest.mark.parametrize("sizes", SIZES)
def test_probability_of_superiority_equals_mann_whitney(sizes: tuple[int, int]):
    a, b = (np.round(x) for x in arms(*sizes))  # rounded, so that there are ties
    expected = stats.mannwhitneyu(a, b).statistic / (len(a) * len(b))
    assert probability_of_superiority([a, b], [1, -1], ["f", "f"]) == pytest.approx(expected)
    of_two = probability_of_superiority([a, b, b, a], [0.5, -0.5, 0.5, -0.5], ["f", "f", "g", "g"])
    assert of_two == pytest.approx(0.5)  # the second family is the first turned round


def test_hedges_g_by_hand():
    cells = [np.array([1.0, 3.0]), np.array([2.0, 6.0])]
    pooled = np.sqrt((2.0 + 8.0) / 2)  # variances 2 and 8, one degree of freedom each
    assert hedges_g(-2.0, cells) == pytest.approx(-2.0 / pooled * (1 - 3 / 7))
    assert hedges_g(1.0, [np.ones(3), np.zeros(3)]) is None


def welch_t(a: np.ndarray, b: np.ndarray, axis: int = -1) -> np.ndarray:
    error = np.sqrt(a.var(axis, ddof=1) / a.shape[axis] + b.var(axis, ddof=1) / b.shape[axis])
    return np.abs(a.mean(axis) - b.mean(axis)) / error


@pytest.mark.parametrize("sizes", SIZES)
def test_permutation_of_one_family_equals_scipy(sizes: tuple[int, int]):
    a, b = arms(*sizes)
    expected = stats.permutation_test(
        (a, b), welch_t, vectorized=True, n_resamples=np.inf, alternative="greater"
    )
    found = permutation_test([a, b], [1, -1], ["f", "f"], np.random.default_rng(0))
    assert found.p == pytest.approx(expected.pvalue)
    distribution = expected.null_distribution
    assert found.floor == pytest.approx((distribution >= distribution.max() * (1 - 1e-9)).mean())


def test_permutation_of_two_families_equals_a_loop():
    (a, b), (c, d) = arms(3, 3), arms(3, 2)

    def split(pooled: np.ndarray, size: int):
        for chosen in itertools.combinations(range(len(pooled)), size):
            rest = [i for i in range(len(pooled)) if i not in chosen]
            yield pooled[list(chosen)], pooled[rest]

    t_values = []
    for first in split(np.concatenate([a, b]), 3):
        for second in split(np.concatenate([c, d]), 3):
            cells = (*first, *second)
            weights = np.array([1, -1, 1, -1]) / 2
            estimate = sum(w * x.mean() for w, x in zip(weights, cells, strict=True))
            variance = sum(w**2 * x.var(ddof=1) / len(x) for w, x in zip(weights, cells, strict=True))
            t_values.append(abs(estimate) / np.sqrt(variance))
    observed = float(abs(of_cells(a, b, c, d, weights=[0.5, -0.5, 0.5, -0.5]).estimate))
    observed /= float(of_cells(a, b, c, d, weights=[0.5, -0.5, 0.5, -0.5]).standard_error)
    found = permutation_test(
        [a, b, c, d], [0.5, -0.5, 0.5, -0.5], ["f", "f", "g", "g"], np.random.default_rng(0)
    )
    assert len(t_values) == 20 * 10
    assert found.p == pytest.approx((np.array(t_values) >= observed * (1 - 1e-9)).mean())


def test_drawn_permutations_come_close_to_all_of_them():
    """Groups of two variants have too many arrangements to count; halves of one cell each have few."""
    a, b = arms(6, 6, shift=2.0)
    exact = permutation_test([a, b], [1, -1], ["f", "f"], np.random.default_rng(0))
    halves = [a[:3], a[3:], b[:3], b[3:]]
    drawn = permutation_test(halves, [0.5, 0.5, -0.5, -0.5], ["f"] * 4, np.random.default_rng(0))
    assert drawn.floor == pytest.approx(1 / 10_000)
    # Another studentisation of the same difference of means: near, not equal.
    assert drawn.p == pytest.approx(exact.p, abs=0.02)


def test_sign_flips_equal_scipy():
    a, b = arms(7, 7)

    def t(difference: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.abs(difference.mean(axis)) / difference.std(axis, ddof=1)

    expected = stats.permutation_test(
        (a - b,), t, permutation_type="samples", vectorized=True, n_resamples=np.inf, alternative="greater"
    )
    found = sign_flip_test([a - b], [1.0], np.random.default_rng(0))
    assert found.p == pytest.approx(expected.pvalue)
    assert found.floor == pytest.approx(2 / 2**7)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_bootstraps_equal_scipy(method: str):
    """The same quantity by other draws: ends agree to the noise of 20,000 resamples."""
    rng = np.random.default_rng(1)
    a, b = rng.gamma(2.0, 2.0, 12), rng.gamma(2.0, 1.0, 9)
    expected = stats.bootstrap(
        (a, b), lambda x, y, axis: x.mean(axis) - y.mean(axis), vectorized=True, method=method,
        n_resamples=20_000, rng=np.random.default_rng(2),
    ).confidence_interval  # fmt: skip
    resampled = [resample(cell, 20_000, rng) for cell in (a, b)]
    found = bootstrap_interval(method, [a, b], resampled, [1, -1], 0.95)
    assert found == pytest.approx((expected.low, expected.high), abs=0.12)
    # Shifted to where the other method is, the test would not hold.
    other = "bca" if method == "percentile" else "percentile"
    assert bootstrap_interval(other, [a, b], resampled, [1, -1], 0.95) != pytest.approx(found, abs=0.05)


def test_studentized_bootstrap_equals_a_loop():
    rng = np.random.default_rng(3)
    cells = [rng.gamma(2.0, size=n) for n in (5, 6, 7, 5)]
    weights = [0.5, -0.5, 0.5, -0.5]
    resampled = [resample(cell, 500, np.random.default_rng(i)) for i, cell in enumerate(cells)]
    draws = [np.random.default_rng(i).integers(len(c), size=(500, len(c))) for i, c in enumerate(cells)]
    found = of_cells(*cells, weights=weights)
    t_values = []
    for row in range(500):
        again = of_cells(*(c[d[row]] for c, d in zip(cells, draws, strict=True)), weights=weights)
        t_values.append(float((again.estimate - found.estimate) / again.standard_error))
    low, high = np.quantile(t_values, [0.025, 0.975])
    expected = (found.estimate - high * found.standard_error, found.estimate - low * found.standard_error)
    assert bootstrap_interval("studentized", cells, resampled, weights, 0.95) == pytest.approx(expected)


def test_studentized_bootstrap_needs_five_runs_and_a_spread():
    rng = np.random.default_rng(0)
    four, five, flat = rng.normal(size=4), rng.normal(size=5), np.ones(5)
    for cells in ([four, five], [flat, flat]):
        resampled = [resample(cell, 100, rng) for cell in cells]
        assert bootstrap_interval("studentized", cells, resampled, [1, -1], 0.95) is None


@pytest.mark.parametrize("df", [1.0, 2.0, 4.3, 10.0, 200.0])
def test_minimum_detectable_effect_has_the_power_it_claims(df: float):
    effect = minimum_detectable_effect(1.0, df)
    assert effect is not None
    rng = np.random.default_rng(0)
    t = (rng.standard_normal(400_000) + effect) / np.sqrt(rng.chisquare(df, 400_000) / df)
    power = (np.abs(t) > stats.t.ppf(0.975, df)).mean()
    assert power == pytest.approx(0.80, abs=0.004)


VARIANCES, WEIGHTS = [1.0, 4.0, 0.5, 2.0], [0.5, -0.5, 0.5, -0.5]


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


def test_source_study_draws_both_arms_with_one_state():
    """As its notebook does it, a state and a draw at a time."""
    first, second = arms(4, 3)
    expected = [
        first[np.random.RandomState(i).randint(0, 4, size=4)].mean()
        - second[np.random.RandomState(i).randint(0, 3, size=4)].mean()
        for i in range(10_000)
    ]
    found = source_study_interval(first, second)
    assert found == pytest.approx((np.mean(expected), *np.percentile(expected, [2.5, 97.5])))
