"""Boundaries of planned looks against published ones and against scipy's multivariate normal distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from report.statistics.looks import boundaries, obrien_fleming


def spent(fractions: list[float], level: float) -> list[float]:
    return [obrien_fleming(t, level) for t in fractions]


@pytest.mark.parametrize(
    "published",
    [
        [2.9626, 1.9686],
        [3.7103, 2.5114, 1.9930],
        [4.8769, 3.3569, 2.6803, 2.2898, 2.0310],  # Reboussin, DeMets, Kim and Lan 2000
    ],
)
def test_equal_looks_have_the_published_boundaries(published: list[float]):
    """Lan and DeMets' spending like O'Brien and Fleming, 5% two-sided."""
    fractions = [(i + 1) / len(published) for i in range(len(published))]
    np.testing.assert_allclose(boundaries(spent(fractions, 0.05), fractions), published, atol=2e-4)


@pytest.mark.parametrize("level", [0.2, 0.05, 0.05 / 54])
@pytest.mark.parametrize("looks", [[0.3, 0.6, 1.0], [0.5, 0.55, 1.0], [0.2, 0.9]])
@pytest.mark.ci
def test_each_look_spends_what_it_may(looks: list[float], level: float):
    """The chance of no crossing so far, from a box under the multivariate normal distribution."""
    bounds = boundaries(spent(looks, level), looks)
    correlation = np.sqrt(np.minimum.outer(looks, looks) / np.maximum.outer(looks, looks))
    for k in range(1, len(looks) + 1):
        inside = stats.multivariate_normal(cov=correlation[:k, :k], abseps=1e-9, releps=1e-9, maxpts=10**6)
        crossed = 1 - inside.cdf(bounds[:k], lower_limit=-bounds[:k])
        assert crossed == pytest.approx(obrien_fleming(looks[k - 1], level), rel=2e-3, abs=1e-7)


def test_the_whole_level_is_spent_at_the_end_and_behind_it():
    assert obrien_fleming(1.0, 0.05) == pytest.approx(0.05)
    assert obrien_fleming(1.4, 0.05) == pytest.approx(0.05)
    assert obrien_fleming(0.3, 0.05) == pytest.approx(4 * stats.norm.sf(stats.norm.isf(0.0125) / 0.3**0.5))


def test_looks_that_follow_each_other_run_by_run_are_resolved():
    """A hundred looks spend the level, by simulated sums of normal scores."""
    looks = np.arange(1, 101) / 100
    bounds = boundaries([0.05 * t for t in looks], list(looks))
    scores = np.random.default_rng(4).normal(size=(100_000, 100)).cumsum(1) / np.sqrt(np.arange(1, 101))
    assert (np.abs(scores) > bounds).any(1).mean() == pytest.approx(0.05, abs=0.0025)
