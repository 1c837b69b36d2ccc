"""Looks at a study that grows: what they spend, what they find, and what looking costs without a plan."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from report.statistics.looks import (
    Looks,
    OneLook,
    PlannedLooks,
    boundaries,
    nominal_levels,
    obrien_fleming,
    one_sided,
)
from tests.cases import listed

STUDIES = 20_000
PLANS = [(3, 6, 10), (3, 4, 5, 6, 7, 8, 9, 10), (2, 4, 6)]
SHAPES = ["normal", "standard deviations 1 and 3", "skewed (gamma, shape 2)"]


def draw(shape: str, families: int, num_runs: int, studies: int, seed: int) -> np.ndarray:
    """Scores (studies, arms, runs) of two variants without a difference in so many families."""
    rng = np.random.default_rng([SHAPES.index(shape), families, num_runs, seed])
    size = (studies, 2 * families, num_runs)
    if shape == SHAPES[2]:
        return rng.gamma(2.0, size=size) - 2
    scores = rng.normal(size=size)
    return scores * np.tile([1, 3], families)[:, None] if shape == SHAPES[1] else scores


def welch_at(scores: np.ndarray, num_runs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """t, degrees of freedom and p of Welch's test averaged over families, of every study."""
    families = scores.shape[1] // 2
    weights = np.tile([1.0, -1.0], families) / families
    seen = scores[..., :num_runs]
    terms = weights**2 * seen.var(-1, ddof=1) / num_runs
    variance = terms.sum(-1)
    df = variance**2 * (num_runs - 1) / (terms**2).sum(-1)
    t = (weights * seen.mean(-1)).sum(-1) / np.sqrt(variance)
    return t, df, 2 * stats.t.sf(np.abs(t), df)


def stops(scores: np.ndarray, looks: Looks, at: Sequence[int], level: float = 0.05) -> np.ndarray:
    """For every study the number of runs at which a difference is found; 0 for never."""
    found = np.zeros(len(scores), dtype=int)
    for num_runs in at:
        _, _, p = welch_at(scores, num_runs)
        found[(found == 0) & (p < looks.at(num_runs).nominal(level))] = num_runs
    return found


def wrong(scores: np.ndarray, looks: Looks, at: Sequence[int], level: float = 0.05) -> float:
    return float((stops(scores, looks, at, level) > 0).mean())


@pytest.mark.slow
@pytest.mark.parametrize("families", [1, 2])
def test_table_of_error_rates(families: int):
    """Prints rows of docs/statistics.md; unequal variances cost what they cost Welch's test."""
    for shape in SHAPES:
        row = []
        for plan in PLANS:
            row.append(wrong(draw(shape, families, plan[-1], 5 * STUDIES, 9), PlannedLooks(plan), plan))
        print(f"| {families} | {shape} | " + " | ".join(f"{100 * rate:.1f}" for rate in row) + " |")
        assert max(row) < (0.065 if shape == SHAPES[1] else 0.0515)


@given(
    p=st.floats(1e-9, 1.0),
    level=st.floats(1e-6, 0.5),
    num_runs=st.sampled_from([3, 5, 6, 10, 12]),
    looks=st.sampled_from([OneLook(), PlannedLooks((3, 6, 10))]),
)
def test_p_is_below_a_level_where_the_test_is_below_its_nominal_level(p, level, num_runs, looks):
    look = looks.at(num_runs)
    assert look.p(p) >= p
    if abs(look.p(p) / level - 1) > 1e-9:
        assert (look.p(p) < level) == (p < look.nominal(level))


def test_a_level_between_those_tabulated_is_as_if_computed():
    for level in (0.05, 0.0123, 0.05 / 54):
        for path in [(3,), (3, 6), (3, 6, 10)]:
            exact = nominal_levels(path, 10, level)[-1]
            assert PlannedLooks((3, 6, 10)).at(path[-1]).nominal(level) == pytest.approx(exact, rel=1e-4)


def test_paths_hold_what_was_planned():
    looks = PlannedLooks((3, 6, 10))
    assert looks.path(3) == (3,)
    assert looks.path(7) == (3, 6, 7)
    assert looks.path(12) == (3, 6, 12)  # the first look behind the plan is its last


def test_one_side_of_a_plan_is_wrong_in_at_most_5_percent():
    """The true difference lies on the margin, where calling it smaller is wrong."""
    plan = PlannedLooks((3, 6, 10))
    scores = draw("normal", 1, 10, STUDIES, 7)
    claimed = np.zeros(STUDIES, dtype=bool)
    for num_runs in plan.plan:
        t, df, _ = welch_at(scores, num_runs)
        look = plan.at(num_runs)
        claimed |= np.array([one_sided(look, p) for p in stats.t.sf(t, df)]) < 0.05
    assert 0.04 < claimed.mean() <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / STUDIES)


def spent(fractions: list[float], level: float) -> list[float]:
    return [obrien_fleming(t, level) for t in fractions]


@pytest.mark.parametrize("published", listed(__file__, "published boundaries"))
def test_equal_looks_have_the_published_boundaries(published: list[float]):
    """Lan and DeMets' spending like O'Brien and Fleming, 5% two-sided."""
    fractions = [(i + 1) / len(published) for i in range(len(published))]
    np.testing.assert_allclose(boundaries(spent(fractions, 0.05), fractions), published, atol=2e-4)


@pytest.mark.parametrize(
    ("level", "looks"), [(0.2, [0.3, 0.6, 1.0]), (0.05 / 54, [0.5, 0.55, 1.0]), (0.05, [0.2, 0.9])]
)
def test_each_look_spends_what_it_may(looks: list[float], level: float):
    """The chance of no crossing so far, from a box under the multivariate normal distribution."""
    bounds = boundaries(spent(looks, level), looks)
    correlation = np.sqrt(np.minimum.outer(looks, looks) / np.maximum.outer(looks, looks))
    for k in range(1, len(looks) + 1):
        inside = stats.multivariate_normal.cdf(
            bounds[:k],
            cov=correlation[:k, :k],
            abseps=1e-9,
            releps=1e-9,
            maxpts=10**6,
            lower_limit=-bounds[:k],
        )
        crossed = 1 - inside
        assert crossed == pytest.approx(obrien_fleming(looks[k - 1], level), rel=2e-3, abs=1e-7)


def test_the_whole_level_is_spent_at_the_end_and_behind_it():
    assert obrien_fleming(1.0, 0.05) == pytest.approx(0.05)
    assert obrien_fleming(1.4, 0.05) == pytest.approx(0.05)
    assert obrien_fleming(0.3, 0.05) == pytest.approx(4 * stats.norm.sf(stats.norm.isf(0.0125) / 0.3**0.5))
