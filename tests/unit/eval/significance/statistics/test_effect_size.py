"""Sizes of effects, by hand and against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.welch import hedges_g, probability_of_superiority

SIZES = [(2, 2), (3, 3), (6, 5), (12, 4)]


def arms(num_a: int, num_b: int, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(100 * num_a + num_b)
    return rng.normal(60 + shift, 3, num_a), rng.normal(60, 1, num_b)


@pytest.mark.parametrize("sizes", SIZES)
def test_probability_of_superiority_equals_mann_whitney(sizes: tuple[int, int]):
    a, b = (np.round(x) for x in arms(*sizes))  # rounded, so that there are ties
    expected = stats.mannwhitneyu(a, b).statistic / (len(a) * len(b))
    assert probability_of_superiority([a, b], [1, -1], ["f", "f"]) == pytest.approx(expected)
    of_two = probability_of_superiority([a, b, b, a], [0.5, -0.5, 0.5, -0.5], ["f", "f", "g", "g"])
    assert of_two == pytest.approx(0.5)  # the second family is the first turned round


def test_hedges_g_by_hand():
    cells = [np.array([1.0, 3.0]), np.array([2.0, 6.0])]
    pooled = np.sqrt((2.0 + 8.0) / 2)  # variances 2 and 8, one degree of freedom each
    assert hedges_g(-2.0, cells) == pytest.approx(-2.0 / pooled * (1 - 3 / 7))
    assert hedges_g(1.0, [np.ones(3), np.zeros(3)]) is None
