"""Intervals by resampling against scipy and a loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.significance.statistics.bootstrap import Studentized, resample, studentized
from eval.significance.statistics.welch import Welch, welch


def of_cells(*cells: np.ndarray, weights: list[float]):
    return welch([c.mean() for c in cells], [c.var(ddof=1) for c in cells], [len(c) for c in cells], weights)


def by_loop(cells: list[np.ndarray], weights: list[float], resamples: int) -> tuple[Welch, np.ndarray]:
    """Welch's t of every resample, one after the other."""
    draws = [np.random.default_rng(i).integers(len(c), size=(resamples, len(c))) for i, c in enumerate(cells)]
    found = of_cells(*cells, weights=weights)
    t_values = []
    for row in range(resamples):
        again = of_cells(*(c[d[row]] for c, d in zip(cells, draws, strict=True)), weights=weights)
        t_values.append(float((again.estimate - found.estimate) / again.standard_error))
    return found, np.array(t_values)


def test_studentized_bootstrap_equals_a_loop():
    rng = np.random.default_rng(3)
    cells = [rng.gamma(2.0, size=n) for n in (5, 6, 7, 5)]
    weights = [0.5, -0.5, 0.5, -0.5]
    resampled = [resample(cell, 500, np.random.default_rng(i)) for i, cell in enumerate(cells)]
    welchs, t_values = by_loop(cells, weights, 500)
    found = studentized(cells, resampled, weights)
    assert found is not None
    low, high = found.interval(0.05)
    assert low + high == pytest.approx(2 * float(welchs.estimate))
    # With the observed one as one more, 25 of 501 lie further out than the ends; that is 5%.
    t = (high - float(welchs.estimate)) / float(welchs.standard_error)
    assert (np.abs(t_values) >= t * (1 - 1e-9)).sum() == 25
    size = abs(float(welchs.estimate / welchs.standard_error))
    assert found.p == pytest.approx((1 + (np.abs(t_values) >= size).sum()) / 501)


@given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(0.1, 4), st.sampled_from([0.01, 0.05, 0.1, 0.4]))
def test_studentized_p_interval_and_margin_agree(seed: int, shift: float, margin: float, level: float):
    rng = np.random.default_rng(seed)
    cells = [rng.normal(size=5) + shift, rng.normal(size=6)]
    found = studentized(cells, [resample(cell, 199, rng) for cell in cells], [1.0, -1.0])
    assert found is not None
    low, high = found.interval(level)
    assert (found.p < level) == (not low <= 0 <= high)
    inside = [-margin < end < margin for end in found.interval(2 * level)]
    assert (found.equivalence_p(margin) < level) == all(inside) == (found.smallest_margin(level) < margin)


def test_so_few_resamples_never_reject():
    found = Studentized(5.0, 1.0, np.zeros(18))
    assert found.p == pytest.approx(1 / 19)
    assert found.interval(0.05) == (-np.inf, np.inf)
    assert Studentized(5.0, 1.0, np.zeros(20)).interval(0.05) == (5.0, 5.0)


@pytest.mark.parametrize("spread", [1, 3])
@pytest.mark.parametrize("sampler", ["normal", "skewed", "outliers"])
def test_studentized_bootstrap_holds_its_level_at_five_runs(sampler: str, spread: int):
    """Of studies in which nothing differs; with equal tails up to 7% are called different."""
    rng = np.random.default_rng([spread, len(sampler)])
    draw = {
        "normal": lambda: rng.normal(size=5),
        "skewed": lambda: rng.gamma(2.0, size=5) - 2.0,
        "outliers": lambda: rng.normal(size=5) * np.where(rng.random(5) < 0.05, 5, 1),
    }[sampler]
    wrong = []
    for _ in range(1_000):
        cells = [draw(), spread * draw()]
        found = studentized(cells, [resample(cell, 399, rng) for cell in cells], [1.0, -1.0])
        wrong.append(found is not None and found.p < 0.05)
    assert 0.005 < np.mean(wrong) < 0.065


def test_studentized_bootstrap_needs_a_spread():
    flat = np.ones(5)
    resampled = [resample(flat, 100, np.random.default_rng(0))] * 2
    assert studentized([flat, flat], resampled, [1.0, -1.0]) is None
