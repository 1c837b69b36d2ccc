"""The source study's own intervals."""

from __future__ import annotations

import numpy as np
import pytest

from eval.significance.statistics.source_study import source_study_interval


def arms(num_a: int, num_b: int, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(100 * num_a + num_b)
    return rng.normal(60 + shift, 3, num_a), rng.normal(60, 1, num_b)


@pytest.mark.ci
def test_source_study_draws_both_arms_with_one_state():
    """As its notebook does it, a state and a draw at a time."""
    first, second = arms(4, 3)
    expected = [
        first[np.random.RandomState(i).randint(0, 4, size=4)].mean()
        - second[np.random.RandomState(i).randint(0, 3, size=4)].mean()
        for i in range(10_000)
    ]
    found = source_study_interval(first, second)
    assert found == pytest.approx((np.mean(expected), *np.percentile(expected, [2.5, 97.5])))
