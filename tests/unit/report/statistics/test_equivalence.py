"""Two one-sided tests against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from report.statistics.welch import equivalence_p, smallest_margin, welch

SIZES = [(2, 2), (3, 3), (6, 5), (12, 4)]


def arms(num_a: int, num_b: int, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(100 * num_a + num_b)
    return rng.normal(60 + shift, 3, num_a), rng.normal(60, 1, num_b)


def of_cells(*cells: np.ndarray, weights: list[float]):
    return welch([c.mean() for c in cells], [c.var(ddof=1) for c in cells], [len(c) for c in cells], weights)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("margin", [0.5, 1.0, 4.0])
def test_equivalence_equals_two_one_sided_tests_of_scipy(sizes: tuple[int, int], margin: float):
    a, b = arms(*sizes)
    above = stats.ttest_ind(a + margin, b, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(a - margin, b, equal_var=False, alternative="less").pvalue
    found = of_cells(a, b, weights=[1, -1])
    estimate, error, df = float(found.estimate), float(found.standard_error), float(found.df)
    assert equivalence_p(estimate, error, df, margin) == pytest.approx(max(above, below), rel=1e-9)
    # At the smallest margin that passes, p is the level; and the 90% interval ends there.
    smallest = smallest_margin(estimate, error, df, 0.05)
    assert equivalence_p(estimate, error, df, smallest) == pytest.approx(0.05)
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.90)
    assert smallest == pytest.approx(max(abs(interval.low), abs(interval.high)))
