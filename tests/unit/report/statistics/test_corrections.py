"""Corrections and the draws of whole studies that they need: against definitions, plain loops and scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from report.statistics.corrections import Holm, MaxT
from report.statistics.joint_null import (
    Cells,
    cells_of_arms,
    cells_of_pairs,
    correlation_of_metrics,
    p_of_t,
    simulated,
)


def test_holm_by_hand():
    assert Holm().adjust([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert Holm().adjust([0.5, 0.9]) == [1.0, 1.0]
    assert Holm().adjust([]) == []
    assert Holm().adjust([0.02, None, 0.03]) == [0.04, None, 0.04]


def test_every_interval_of_holm_has_an_equal_share_of_the_level():
    assert Holm().levels([0.001, None, 0.9, 0.04], 0.05) == [0.05 / 3, None, 0.05 / 3, 0.05 / 3]


def by_loop(null_p: np.ndarray, observed: list[float | None]) -> list[float | None]:
    """Romano and Wolf's algorithm as it is written down, one draw at a time."""
    left = [i for i, p in enumerate(observed) if p is not None]
    corrected: list[float | None] = [None] * len(observed)
    largest = 0.0
    while left:
        best = min(left, key=lambda i: observed[i])
        as_small = sum(min(draw[i] for i in left) <= observed[best] for draw in null_p)
        largest = max(largest, (1 + as_small) / (1 + len(null_p)), observed[best])
        corrected[best] = largest
        left.remove(best)
    return corrected


# Few values, so that draws and observed p-values are often equal.
p_values = st.integers(1, 20).map(lambda k: k / 20)


@st.composite
def studies(draw: st.DrawFn) -> tuple[np.ndarray, list[float | None]]:
    count = draw(st.integers(1, 5))
    observed = draw(st.lists(st.none() | p_values, min_size=count, max_size=count))
    rows = st.lists(p_values, min_size=count, max_size=count)
    return np.array(draw(st.lists(rows, min_size=1, max_size=60))), observed


@given(studies())
def test_it_is_the_published_algorithm(study):
    null_p, observed = study
    assert MaxT(null_p).adjust(observed) == by_loop(null_p, observed)


@given(studies(), st.sampled_from([0.05, 0.1, 0.25, 0.5, 1.0]))
def test_levels_agree_with_what_is_shown(study, level):
    """What is not shown is not below its level; what is shown may need cutting, and is below the last one."""
    null_p, observed = study
    correction = MaxT(null_p)
    corrected, levels = correction.adjust(observed), correction.levels(observed, level)
    of_open = {own for p, own in zip(corrected, levels, strict=True) if p is not None and p >= level}
    of_shown = {own for p, own in zip(corrected, levels, strict=True) if p is not None and p < level}
    assert len(of_open) <= 1
    assert len(of_shown) <= 1
    for p, own_p, own in zip(corrected, observed, levels, strict=True):
        assert (own is None) == (p is None) == (own_p is None)
        if p is not None and p >= level:
            assert own_p >= own
    if of_open and of_shown:
        assert max(of_shown) <= min(of_open) <= level
    if of_shown:  # the smallest p passes the first step, whose interval needs no cut
        assert min(p for p in observed if p is not None) < max(of_shown)


def t_draws(count: int, df: float, draws: int) -> np.ndarray:
    """p-values of Student's t with one baseline and one variance for all, as Dunnett (1955) has them."""
    rng = np.random.default_rng([count, int(min(df, 1e6))])
    means = rng.standard_normal((draws, count + 1))
    spread = np.sqrt(rng.chisquare(df, (draws, 1)) / df)
    t = (means[:, 1:] - means[:, :1]) / np.sqrt(2) / spread
    return 2 * special.stdtr(df, -np.abs(t))


DUNNETT_5_PERCENT = {(2, 10): 2.57, (9, 20): 2.95}
"""Two-sided critical values of Dunnett (1964), table II, by number of treatments and degrees of freedom."""


@pytest.mark.parametrize(("count", "df"), DUNNETT_5_PERCENT)
def test_with_one_variance_it_is_dunnetts_table(count, df):
    observed: list[float | None] = [0.9] * count
    level = MaxT(t_draws(count, df, 100_000)).levels(observed, 0.05)[0]
    assert stats.t.isf(level / 2, df) == pytest.approx(DUNNETT_5_PERCENT[count, df], abs=0.02)


def test_comparisons_without_runs_are_not_counted():
    null_p = np.random.default_rng(3).random((100, 10))
    assert MaxT(null_p).adjust([None] * 10) == MaxT(null_p).levels([None] * 10, 0.05) == [None] * 10


def test_so_few_draws_reject_nothing():
    null_p = np.ones((18, 2))
    assert MaxT(null_p).adjust([1e-9, 1e-9]) == pytest.approx([1 / 19] * 2)
    assert MaxT(null_p).levels([1e-9, 1e-9], 0.05) == [0.0, 0.0]
    assert MaxT(np.ones((20, 2))).adjust([1e-9, 1e-9])[0] < 0.05
    assert MaxT(np.full((99, 1), np.nan)).adjust([0.5]) == [0.5]


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
