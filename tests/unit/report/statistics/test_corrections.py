"""Holm's and the step-down correction against their definitions, plain loops, theory and scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from report.statistics.corrections import Holm, MaxT


def test_holm_by_hand():
    assert Holm().adjust([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert Holm().adjust([0.5, 0.9]) == [1.0, 1.0]
    assert Holm().adjust([]) == []
    assert Holm().adjust([0.02, None, 0.03]) == [0.04, None, 0.04]


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
    assert Holm().adjust(p_values) == pytest.approx(expected)


def test_every_interval_of_holm_has_an_equal_share_of_the_level():
    assert Holm().levels([0.001, None, 0.9, 0.04], 0.05) == [0.05 / 3, None, 0.05 / 3, 0.05 / 3]


def half_width(levels: np.ndarray) -> np.ndarray:
    return stats.norm.isf(levels / 2)


@pytest.mark.slow
@pytest.mark.parametrize(("distance", "is_far_off"), [(0.0, False), (3.5, False), (4.5, True)])
def test_intervals_hold_together_even_where_most_differences_are_shown(distance: float, is_far_off: bool):
    """Levels shared only among what is not shown would miss what Holm's tests miss."""
    rng, num_tests, studies = np.random.default_rng(4), 54, 1_000
    off = rng.normal(size=(studies, num_tests))
    p_values = 2 * stats.norm.sf(np.abs(off + distance))
    missed_by_levels = missed_by_steps = 0
    for of_study, p in zip(off, p_values, strict=True):
        levels = Holm().levels(p.tolist(), 0.05)
        missed_by_levels += bool((np.abs(of_study) > half_width(np.array(levels, float))).any())
        corrected = np.array(Holm().adjust(p.tolist()), float)
        is_open = corrected >= 0.05
        steps = np.where(is_open, 0.05 / max(1, is_open.sum()), 0.05 / num_tests)
        missed_by_steps += bool((np.abs(of_study) > half_width(steps)).any())
    assert missed_by_levels <= stats.binom.ppf(1 - 1e-4, studies, 0.05)
    assert (missed_by_steps > 0.2 * studies) == is_far_off


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


def test_without_dependence_it_is_sidaks_bound_step_by_step():
    null_p = np.random.default_rng(2).random((200_000, 4))
    corrected = MaxT(null_p).adjust([0.01, 0.2, 0.02, 0.03])
    expected = [1 - 0.99**4, 0.2, 1 - 0.98**3, 1 - 0.97**2]
    assert corrected == pytest.approx(np.maximum(expected, [0, 0, 0, expected[2]]), abs=3e-3)


def test_equal_comparisons_cost_nothing_and_none_is_not_counted():
    null_p = np.repeat(np.random.default_rng(3).random((100_000, 1)), 10, axis=1)
    observed: list[float | None] = [0.04] * 9 + [None]
    assert MaxT(null_p).adjust(observed)[:9] == pytest.approx([0.04] * 9, abs=2e-3)
    assert MaxT(null_p).adjust(observed)[9] is None
    assert MaxT(null_p).adjust([None] * 10) == MaxT(null_p).levels([None] * 10, 0.05) == [None] * 10


def test_so_few_draws_reject_nothing():
    null_p = np.ones((18, 2))
    assert MaxT(null_p).adjust([1e-9, 1e-9]) == pytest.approx([1 / 19] * 2)
    assert MaxT(null_p).levels([1e-9, 1e-9], 0.05) == [0.0, 0.0]
    assert MaxT(np.ones((20, 2))).adjust([1e-9, 1e-9])[0] < 0.05
    assert MaxT(np.full((99, 1), np.nan)).adjust([0.5]) == [0.5]
