"""Two models on the same items, against statsmodels, and what the interval covers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.paired_items import compare_paired, mcnemar

sm = pytest.importorskip("statsmodels.api")
contingency = pytest.importorskip("statsmodels.stats.contingency_tables")


def drawn(seed: int, num_clusters: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of two models, 0 or 1, and clusters of different sizes that shift both."""
    generator = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(num_clusters), generator.integers(1, 30, num_clusters))
    level = 0.6 + 0.2 * generator.normal(size=num_clusters)[clusters]
    first, second = (generator.random(len(clusters)) < level + shift for shift in (0.0, 0.05))
    return first.astype(float), second.astype(float), clusters


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
def test_clustered_standard_errors_are_those_of_statsmodels(seed: int, weighted: bool):
    first, second, clusters = drawn(seed)
    weights = 1.0 / np.bincount(clusters)[clusters] if weighted else np.ones(len(clusters))
    model = sm.WLS(first - second, np.ones((len(first), 1)), weights=weights)
    fitted = model.fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    found = compare_paired(first, second, clusters, weights if weighted else None)
    assert found.estimate == pytest.approx(fitted.params[0], abs=1e-12)
    assert found.standard_error == pytest.approx(fitted.bse[0], rel=1e-9)
    assert found.p == pytest.approx(fitted.pvalues[0], rel=1e-9)
    assert (found.low, found.high) == pytest.approx(tuple(fitted.conf_int()[0]), rel=1e-9)


def test_items_of_their_own_give_the_paired_t_test():
    first, second, _ = drawn(0)
    found = compare_paired(first, second, np.arange(len(first)))
    reference = stats.ttest_rel(first, second)
    assert found.p == pytest.approx(reference.pvalue, rel=1e-9)
    assert found.standard_error == found.standard_error_items
    interval = reference.confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_a_difference_as_large_as_detectable_is_found_in_four_of_five_studies():
    generator = np.random.default_rng(1)
    clusters = np.repeat(np.arange(15), 20)

    def noise() -> np.ndarray:
        return generator.normal(size=15)[clusters] + generator.normal(size=300)

    detectable = np.mean([compare_paired(noise(), 0 * clusters, clusters).detectable for _ in range(200)])
    found = [compare_paired(noise() + detectable, 0 * clusters, clusters).p < 0.05 for _ in range(600)]
    assert 0.74 < np.mean(found) < 0.86


@pytest.mark.parametrize("seed", range(5))
def test_mcnemar_is_that_of_statsmodels(seed: int):
    first, second, _ = (x[: 20 * (seed + 1)] for x in drawn(seed))
    table = [[int(((first == a) & (second == b)).sum()) for b in (1, 0)] for a in (1, 0)]
    found = mcnemar(first > 0, second > 0)
    assert (found.only_first, found.only_second) == (table[0][1], table[1][0])
    assert found.p_exact == pytest.approx(contingency.mcnemar(table, exact=True).pvalue, rel=1e-9)
    corrected = contingency.mcnemar(table, exact=False, correction=True).pvalue
    assert found.p_corrected == pytest.approx(corrected, rel=1e-9)


def test_equal_models_do_not_differ():
    first, _, clusters = drawn(0)
    found = compare_paired(first, first, clusters)
    assert (found.estimate, found.p, found.low, found.high) == (0, 1, 0, 0)
    assert mcnemar(first > 0, first > 0).p_exact == 1


def test_one_cluster_gives_no_interval():
    found = compare_paired(np.array([1.0, 0.0]), np.array([0.0, 0.0]), np.array(["a", "a"]))
    assert found.estimate == 0.5
    assert np.isnan([found.low, found.high, found.p]).all()


def test_clustered_intervals_cover_where_those_of_items_do_not():
    """Items of a cluster go together: as if independent, one of three intervals is wrong."""
    generator = np.random.default_rng(0)
    clusters = np.repeat(np.arange(20), 30)
    wrong = np.zeros(2)
    for _ in range(400):
        differences = 0.5 * generator.normal(size=20)[clusters] + generator.normal(size=len(clusters))
        for place, labels in enumerate((clusters, np.arange(len(clusters)))):
            found = compare_paired(differences, 0 * differences, labels)
            wrong[place] += not found.low <= 0 <= found.high
    assert wrong[0] / 400 < 0.08
    assert wrong[1] / 400 > 0.25


@pytest.mark.parametrize("num_items", [2, 3, 5, 10])
@pytest.mark.parametrize("size", [1.0, 0.1, 100.0])
def test_a_difference_that_is_the_same_everywhere_is_no_certainty(num_items: int, size: float):
    found = compare_paired(np.full(num_items, size), np.zeros(num_items), np.arange(num_items))
    assert found.p == pytest.approx(stats.binomtest(num_items, num_items).pvalue, rel=1e-9)
    assert found.p == pytest.approx(mcnemar(np.ones(num_items), np.zeros(num_items)).p_exact, rel=1e-9)
    assert np.isnan([found.low, found.high, found.detectable]).all()
