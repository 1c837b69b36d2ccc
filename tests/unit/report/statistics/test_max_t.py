"""The step-down correction against a plain loop, against theory, and against its own intervals' levels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from report.statistics.corrections import MaxT

DUNNETT_5_PERCENT = {(2, 10): 2.57, (3, 10): 2.76, (5, 10): 2.99, (9, 10): 3.24, (3, 20): 2.54, (9, 20): 2.95}
"""Two-sided critical values of Dunnett (1964), table II, by number of treatments and degrees of freedom."""


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


@pytest.mark.parametrize(("count", "df"), DUNNETT_5_PERCENT)
def test_with_one_variance_it_is_dunnetts_table(count, df):
    observed: list[float | None] = [0.9] * count
    level = MaxT(t_draws(count, df, 100_000)).levels(observed, 0.05)[0]
    assert stats.t.isf(level / 2, df) == pytest.approx(DUNNETT_5_PERCENT[count, df], abs=0.02)


def test_with_one_variance_it_is_scipys_dunnett():
    """Of the smallest p: the others are judged in further steps, which Dunnett's single step has not."""
    rng = np.random.default_rng(1)
    arms = rng.normal(size=(6, 4))
    arms[3] += 1.5
    pooled = arms.var(1, ddof=1).mean()
    t = (arms[1:].mean(1) - arms[0].mean()) / np.sqrt(2 * pooled / 4)
    observed = [float(p) for p in 2 * stats.t.sf(np.abs(t), 18)]
    corrected = MaxT(t_draws(5, 18, 100_000)).adjust(observed)
    expected = stats.dunnett(*arms[1:], control=arms[0], random_state=1).pvalue
    assert corrected[2] == pytest.approx(expected[2], abs=2e-3)
    assert all(p <= q + 2e-3 for p, q in zip(corrected, expected, strict=True) if p is not None)


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
