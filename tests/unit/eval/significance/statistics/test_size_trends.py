"""Trends over sizes against weighted sums written out, against scipy, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.size_trends import (
    CANNOT_TELL,
    CHANGES_SIGN,
    GROWS,
    HOLDS,
    SHRINKS,
    SizeTrend,
    size_trend,
    trend_verdicts,
)

SIZES = np.log([[1e5, 5e5, 2e6]])


def draw(rng: np.random.Generator, truth: np.ndarray, runs: int, sd: float = 1.0) -> SizeTrend:
    """Trends of (B,) studies: the variant's mean at each size is the truth (S,), the baseline's is zero."""
    true = np.stack([truth, np.zeros_like(truth)], axis=-1)
    scores = rng.normal(size=(1_000, 1, *true.shape, runs)) * sd + true[..., None]
    counts = np.full(true.shape, runs)[None]
    return size_trend(SIZES[:, : len(truth)], scores.mean(-1), scores.var(-1, ddof=1), counts)


def each_verdict(trend: SizeTrend, margin: float | None) -> list[str]:
    """Verdicts of studies of one variant each, so without any correction between them."""
    return [trend_verdicts([trend.of((i,))], margin)[0] for i in range(len(trend.change.p))]


def test_the_line_is_scipys():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(1, 3, 2, 4))
    found = size_trend(SIZES, scores.mean(-1), scores.var(-1, ddof=1), np.full((1, 3, 2), 4))
    differences = (scores[0, :, 0] - scores[0, :, 1]).mean(-1)
    line = stats.linregress(SIZES[0], differences)
    at = line.intercept + line.slope * SIZES[0]
    assert found.first.estimate == pytest.approx(at[0])
    assert found.last.estimate == pytest.approx(at[2])
    assert found.change.estimate == pytest.approx(at[2] - at[0])
    assert found.middle.estimate == pytest.approx((at[0] + at[2]) / 2)
    assert found.bend is not None
    left = differences - (line.intercept + line.slope * SIZES[0])
    assert abs(found.bend.estimate) == pytest.approx(np.linalg.norm(left))


def test_with_two_sizes_the_change_is_welchs_contrast_of_four_arms():
    rng = np.random.default_rng(1)
    arms = rng.normal(size=(4, 5)) * [[1], [2], [1], [3]]
    scores = arms.reshape(1, 2, 2, 5)
    found = size_trend(SIZES[:, :2], scores.mean(-1), scores.var(-1, ddof=1), np.full((1, 2, 2), 5))
    parts = arms.var(axis=1, ddof=1) / 5
    change = (arms[2] - arms[3]).mean() - (arms[0] - arms[1]).mean()
    df = parts.sum() ** 2 / (parts**2 / 4).sum()
    assert found.bend is None
    assert found.change.estimate == pytest.approx(change)
    assert found.change.df == pytest.approx(df)
    assert found.change.p == pytest.approx(2 * stats.t.sf(abs(change) / np.sqrt(parts.sum()), df))


def test_variance_that_a_choice_adds_is_in_every_end():
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(1, 3, 2, 4))
    moments = (scores.mean(-1), scores.var(-1, ddof=1), np.full((1, 3, 2), 4))
    plain = size_trend(SIZES, *moments)
    more = size_trend(SIZES, *moments, added=np.full((1, 3, 2), 0.7))
    x = SIZES[0] - SIZES[0].mean()
    weights = x / (x**2).sum() * np.ptp(x)
    # Variant and baseline have weights of opposite signs: each side has both ends of the sizes.
    one_side = 0.7 * np.abs(weights).sum() ** 2
    wanted = plain.change.standard_error**2 + 2 * one_side
    assert more.change.standard_error**2 == pytest.approx(wanted)
    assert more.change.df > plain.change.df
    assert more.change.estimate == plain.change.estimate


def test_families_weigh_alike():
    rng = np.random.default_rng(2)
    scores, sizes = rng.normal(size=(2, 3, 2, 4)), np.log([[1e5, 5e5, 2e6], [2e5, 1e6, 8e6]])
    counts = np.full((2, 3, 2), 4)
    both = size_trend(sizes, scores.mean(-1), scores.var(-1, ddof=1), counts)
    single = [
        size_trend(sizes[[i]], scores[[i]].mean(-1), scores[[i]].var(-1, ddof=1), counts[[i]]) for i in (0, 1)
    ]
    assert both.change.estimate == pytest.approx(np.mean([x.change.estimate for x in single]))


@pytest.mark.parametrize(
    ("truth", "wanted"),
    [
        ([9.0, 5.0, 1.0], SHRINKS),
        ([-9.0, -5.0, -1.0], SHRINKS),
        ([-1.0, -5.0, -9.0], GROWS),
        ([5.0, 0.0, -5.0], CHANGES_SIGN),
        ([9.0, 9.0, 9.0], HOLDS),
        ([0.0, 0.0, 0.0], HOLDS),
    ],
)
def test_what_is_plain_is_said(truth: list[float], wanted: str):
    trend = draw(np.random.default_rng(3), np.array(truth), 5, sd=0.2)
    found = each_verdict(trend, margin=1.0)
    assert found.count(wanted) >= 900


def test_without_a_margin_nothing_holds_and_without_spread_nothing_is_said():
    trend = draw(np.random.default_rng(4), np.zeros(3), 5, sd=0.01)
    assert HOLDS not in each_verdict(trend, None)
    flat = size_trend(SIZES, np.zeros((1, 1, 3, 2)), np.zeros((1, 1, 3, 2)), np.full((1, 3, 2), 3))
    assert trend_verdicts([flat.of((0,))], 1.0) == [CANNOT_TELL]


@pytest.mark.parametrize("runs", [3, 6])
@pytest.mark.parametrize(
    ("truth", "false"),
    [
        ([0.0, 0.0, 0.0], {SHRINKS, GROWS, CHANGES_SIGN}),
        ([5.0, 5.0, 5.0], {SHRINKS, GROWS, CHANGES_SIGN}),
        ([5.0, 0.0, -5.0], {SHRINKS, GROWS, HOLDS}),
        ([0.0, 2.5, 5.0], {SHRINKS, CHANGES_SIGN, HOLDS}),
        ([0.0, 0.5, 1.0], {HOLDS}),
    ],
)
@pytest.mark.ci
def test_at_most_one_study_in_twenty_has_a_false_verdict(runs: int, truth: list[float], false: set[str]):
    trend = draw(np.random.default_rng(5), np.array(truth), runs)
    found = each_verdict(trend, margin=1.0)
    # 1,000 studies at 5%: two standard errors of the simulation are 1.4%.
    assert np.mean([verdict in false for verdict in found]) <= 0.064
