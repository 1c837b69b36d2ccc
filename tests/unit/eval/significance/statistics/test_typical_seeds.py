"""The ratio of variances against scipy and known truths, the number of seeds against simulated tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.power import typical_seeds, variance_ratio

MEANS = np.array([0.0, 1.0, -0.5, 0.7, 0.1])


def runs(generator: np.random.Generator, sizes: list[int], spread: float = 1.0) -> list[np.ndarray]:
    return [generator.normal(mean, spread, size) for mean, size in zip(MEANS, sizes, strict=True)]


def test_the_ratio_is_made_of_the_f_statistic():
    arms = runs(np.random.default_rng(0), [4] * 5)
    f = stats.f_oneway(*arms).statistic
    assert variance_ratio([arms]) == pytest.approx((f * 13 / 15 - 1) / 4, rel=1e-12)
    other = runs(np.random.default_rng(1), [6] * 5)
    both = (variance_ratio([arms]) + variance_ratio([other])) / 2
    assert variance_ratio([arms, other]) == pytest.approx(both)


@pytest.mark.parametrize("sizes", [[3] * 5, [8] * 5, [6, 5, 5, 6, 5]])
@pytest.mark.parametrize("spread", [0.5, 2.0])
@pytest.mark.ci
def test_it_is_the_true_ratio_on_average(sizes, spread):
    generator = np.random.default_rng(2)
    found = np.array([variance_ratio([runs(generator, sizes, spread)]) for _ in range(3000)])
    error = found.std() / np.sqrt(len(found))
    assert found.mean() == pytest.approx(MEANS.var(ddof=1) / spread**2, abs=4 * error + 0.02)


def test_unit_and_offset_change_nothing():
    arms = runs(np.random.default_rng(3), [5] * 5)
    assert variance_ratio([[7 - 30 * arm for arm in arms]]) == pytest.approx(variance_ratio([arms]))


def test_what_cannot_be_told_is_not_told():
    arms = runs(np.random.default_rng(4), [5] * 5)
    assert variance_ratio([arms[:1]]) is None
    assert variance_ratio([[arm[:1] for arm in arms]]) is None
    assert variance_ratio([arms, [arm[:1] for arm in arms]]) is None
    assert variance_ratio([[np.full(5, 2.0), np.full(5, 3.0)]]) is None
    assert typical_seeds(-0.1) is typical_seeds(0.0) is typical_seeds(1e-6) is None


@pytest.mark.parametrize("ratio", [0.3, 1.0, 4.0])
def test_so_many_seeds_find_the_typical_difference_in_four_of_five_studies(ratio):
    seeds = typical_seeds(ratio)
    generator = np.random.default_rng(5)

    def power(size: int) -> float:
        first, second = generator.normal(0, 1, (2, 20_000, size))
        p = stats.ttest_ind(first + np.sqrt(2 * ratio), second, axis=1, equal_var=False).pvalue
        return float((p < 0.05).mean())

    assert power(seeds) > 0.78
    assert power(seeds - 1) < 0.82 if seeds > 2 else seeds == 2


def test_how_sure_the_number_of_seeds_is():
    """What docs/statistics.md says: two families of five variants and five seeds, 9 seeds in truth."""
    assert typical_seeds(1.0) == 9
    generator, found = np.random.default_rng(0), []
    for _ in range(1500):
        means = generator.normal(0, 1, 5)
        means /= means.std(ddof=1)
        found.append(variance_ratio([[generator.normal(mean, 1, 5) for mean in means] for _ in range(2)]))
    low, high = np.quantile(found, [0.1, 0.9])
    assert typical_seeds(high) in (6, 7)
    assert 16 <= typical_seeds(low) <= 20
