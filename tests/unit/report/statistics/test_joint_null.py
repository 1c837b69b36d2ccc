"""Draws of whole studies against scipy, plain loops, and studies simulated directly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from report.statistics.corrections import MaxT
from report.statistics.joint_null import (
    Cells,
    cells_of_arms,
    cells_of_pairs,
    correlation_of_metrics,
    p_of_t,
    simulated,
)


def design(num_variants: int, num_metrics: int, num_families: int = 1):
    """Weights, outcomes and families: every variant with the first arm of its family, on every outcome."""
    weights = np.zeros((num_variants, num_metrics, num_families, num_variants + 1))
    weights[..., 0] = -1 / num_families
    for variant in range(num_variants):
        weights[variant, ..., 1 + variant] = 1 / num_families
    metrics = np.tile(np.arange(num_metrics), num_variants)
    families = np.repeat(np.arange(num_families), num_variants + 1)
    return weights.reshape(num_variants * num_metrics, -1), metrics, families


def run_scores(rng: np.random.Generator, num_arms: int, num_runs: int, num_metrics: int, correlation=0.0):
    """(A, S, O) normal scores of runs whose outcomes correlate."""
    common = rng.normal(size=(num_arms, num_runs, 1))
    own = rng.normal(size=(num_arms, num_runs, num_metrics))
    return np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own


def by_the_book(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Welch's t and degrees of freedom as they are in books, from what the cells say."""
    counts = (~np.isnan(cells.values)).sum(0)
    error = np.nan_to_num(np.nanvar(cells.values, axis=0, ddof=1) / counts)
    terms = cells.weights**2 * error
    df = terms.sum(1) ** 2 / (terms**2 / np.maximum(counts - 1, 1)).sum(1)
    return cells.weights @ np.nan_to_num(np.nanmean(cells.values, axis=0)) / np.sqrt(terms.sum(1)), df


def test_cells_of_arms_are_welchs_test():
    scores = run_scores(np.random.default_rng(0), 3, 6, 2)
    scores[1, 2, 0] = np.nan
    weights, metrics, families = design(2, 2)
    t, _ = by_the_book(cells_of_arms(scores, weights, metrics, families))
    for place, (row, metric) in enumerate(zip(weights, metrics, strict=True)):
        arms = [scores[a, :, metric] for a in (int(row.argmax()), 0)]
        expected = stats.ttest_ind(*[arm[~np.isnan(arm)] for arm in arms], equal_var=False)
        assert t[place] == pytest.approx(expected.statistic)


def test_cells_of_pairs_are_the_paired_test_averaged_over_families():
    scores = run_scores(np.random.default_rng(1), 6, 5, 2)
    scores[1, 2, 0] = np.nan  # of the first variant in the first family
    weights, metrics, families = design(2, 2, num_families=2)
    cells = cells_of_pairs(scores, weights, metrics, families)
    t, df = by_the_book(cells)
    whole = scores[[4, 3], :, 1]
    both = [scores[1, :, 1] - scores[0, :, 1], whole[0] - whole[1]]
    error = sum(d.var(ddof=1) / 5 / 4 for d in both)
    assert t[1] == pytest.approx(sum(d.mean() for d in both) / 2 / np.sqrt(error))
    assert df[1] == pytest.approx(error**2 / sum((d.var(ddof=1) / 5 / 4) ** 2 / 4 for d in both))
    assert np.isnan(cells.values).sum() == 1  # the other variant keeps its pair


def test_a_comparison_without_runs_has_no_p():
    scores = run_scores(np.random.default_rng(2), 3, 6, 1)
    scores[1] = np.nan
    cells = cells_of_arms(scores, *design(2, 1))
    found, *_ = simulated(cells, 50, np.random.default_rng(0))
    assert np.isnan(found.t[:, 0]).all()
    assert np.isfinite(found.t[:, 1]).all()
    assert np.isnan(p_of_t(found)[:, 0]).all()


@pytest.mark.slow
@pytest.mark.parametrize("is_paired", [False, True])
def test_simulated_studies_share_what_real_ones_share(is_paired):
    """Correlations of t between comparisons, against studies of the same truth simulated directly."""
    truth = np.random.default_rng(3)
    weights, metrics, families = design(2, 2, num_families=2)
    spread = np.array([1.0, 2.0, 1.0, 1.0, 2.0, 1.0])[:, None, None]

    def study(rng):
        of_seeds = 3 * np.repeat(rng.normal(size=(2, 1, 100, 1)), 3, axis=1).reshape(6, 100, 1)
        return spread * run_scores(rng, 6, 100, 2, correlation=0.7) + is_paired * of_seeds

    def cells(scores):
        return (
            cells_of_pairs(scores, weights, metrics, families)
            if is_paired
            else cells_of_arms(scores, weights, metrics, families)
        )

    direct = np.array([by_the_book(cells(study(truth)))[0] for _ in range(2_000)])
    found = simulated(cells(study(np.random.default_rng(4))), 10_000, np.random.default_rng(5))[0]
    assert np.corrcoef(found.t.T) == pytest.approx(np.corrcoef(direct.T), abs=0.08)
    assert np.corrcoef(direct.T)[0, 1] > 0.5  # two outcomes of one run
    assert np.corrcoef(direct.T)[0, 2] > 0.2  # two variants with one baseline
    for p in p_of_t(found).T:
        assert stats.kstest(p, "uniform").statistic < 0.02


def test_few_runs_do_not_feign_dependence_and_many_show_it():
    rng = np.random.default_rng(9)
    sizes = [np.abs(correlation_of_metrics(run_scores(rng, 2, 3, 6)) - np.eye(6)).max() for _ in range(200)]
    assert np.median(sizes) < 0.35  # plain correlations of four degrees of freedom: about 0.9
    found = correlation_of_metrics(run_scores(rng, 20, 10, 3, correlation=0.9))
    assert found == pytest.approx(0.9 + 0.1 * np.eye(3), abs=0.05)


def test_outcomes_of_different_runs_are_independent():
    scores = run_scores(np.random.default_rng(10), 3, 8, 2, correlation=0.9)
    scores[:, :4, 0] = scores[:, 4:, 1] = np.nan
    assert correlation_of_metrics(scores) == pytest.approx(np.eye(2))


def test_one_outcome_with_equal_spread_is_dunnetts_test():
    """The smallest p, of arms large enough that pooled and own variances say the same."""
    arms = np.random.default_rng(11).normal(size=(6, 80))
    arms = (arms - arms.mean(1, keepdims=True)) / arms.std(1, keepdims=True)
    arms[2] += 0.4
    expected = stats.dunnett(*arms[1:], control=arms[0], random_state=1).pvalue
    cells = cells_of_arms(arms[:, :, None], *design(5, 1))
    as_seen, *_ = simulated(cells, 40_000, np.random.default_rng(0))
    p_values = [float(stats.ttest_ind(arm, arms[0], equal_var=False).pvalue) for arm in arms[1:]]
    assert MaxT(p_of_t(as_seen)).adjust(p_values)[1] == pytest.approx(expected[1], abs=5e-3)


def test_studies_of_several_kinds_are_drawn():
    """As seen, about what is usual, a wide baseline; and of few unlike arms the small ones wide."""
    scores = run_scores(np.random.default_rng(13), 3, 10, 1)
    alike = simulated(cells_of_arms(scores, *design(2, 1)), 100, np.random.default_rng(1))
    assert len(alike) == 3
    scores[2, 3:] = np.nan
    uneven = simulated(cells_of_arms(scores, *design(2, 1)), 20_000, np.random.default_rng(1))
    assert len(uneven) == 4
    # Where the arm with three runs spreads thrice as far, its t, of few degrees of freedom, is far out.
    assert stats.iqr(uneven[3].t[:, 1]) > 1.05 * stats.iqr(uneven[0].t[:, 1])


def test_a_choice_of_rates_moves_all_families_of_a_variant_together():
    """With many runs the variance of t's numerator is that of the regrets: their roots add over families."""
    weights, metrics, families = design(1, 1, num_families=2)
    scores = run_scores(np.random.default_rng(14), 4, 400, 1)
    choices = np.stack([np.full((4, 1), 0.5), np.full((4, 1), 1e6)])
    cells = cells_of_arms(scores, weights, metrics, families, choices, np.array([0, 1, 0, 1]))
    as_seen, *_ = simulated(cells, 5_000, np.random.default_rng(2))
    assert as_seen.t.std() == pytest.approx(1.0, abs=0.04)
    alone = cells_of_arms(scores, weights, metrics, families, choices, np.arange(4))
    assert simulated(alone, 5_000, np.random.default_rng(2))[0].t.std() == pytest.approx(0.5**0.5, abs=0.03)
