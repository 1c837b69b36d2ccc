"""Intervals by resampling against scipy and a loop."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.bootstrap import bootstrap_interval, resample
from eval.significance.statistics.welch import welch


def of_cells(*cells: np.ndarray, weights: list[float]):
    return welch([c.mean() for c in cells], [c.var(ddof=1) for c in cells], [len(c) for c in cells], weights)


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
