"""Permutations and sign flips against scipy and loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.permutation import permutation_test, sign_flip_test
from eval.significance.statistics.welch import welch

SIZES = [(2, 2), (3, 3), (6, 5), (12, 4)]


def arms(num_a: int, num_b: int, shift: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(100 * num_a + num_b)
    return rng.normal(60 + shift, 3, num_a), rng.normal(60, 1, num_b)


def of_cells(*cells: np.ndarray, weights: list[float]):
    return welch([c.mean() for c in cells], [c.var(ddof=1) for c in cells], [len(c) for c in cells], weights)


def welch_t(a: np.ndarray, b: np.ndarray, axis: int = -1) -> np.ndarray:
    error = np.sqrt(a.var(axis, ddof=1) / a.shape[axis] + b.var(axis, ddof=1) / b.shape[axis])
    return np.abs(a.mean(axis) - b.mean(axis)) / error


@pytest.mark.parametrize("sizes", SIZES)
def test_permutation_of_one_family_equals_scipy(sizes: tuple[int, int]):
    a, b = arms(*sizes)
    expected = stats.permutation_test(
        (a, b), welch_t, vectorized=True, n_resamples=np.inf, alternative="greater"
    )
    found = permutation_test([a, b], [1, -1], ["f", "f"])
    assert found.p == pytest.approx(expected.pvalue)
    distribution = expected.null_distribution
    assert found.floor == pytest.approx((distribution >= distribution.max() * (1 - 1e-9)).mean())


def test_permutation_of_two_families_equals_a_loop():
    (a, b), (c, d) = arms(3, 3), arms(3, 2)

    def split(pooled: np.ndarray, size: int):
        for chosen in itertools.combinations(range(len(pooled)), size):
            rest = [i for i in range(len(pooled)) if i not in chosen]
            yield pooled[list(chosen)], pooled[rest]

    t_values = []
    for first in split(np.concatenate([a, b]), 3):
        for second in split(np.concatenate([c, d]), 3):
            cells = (*first, *second)
            weights = np.array([1, -1, 1, -1]) / 2
            estimate = sum(w * x.mean() for w, x in zip(weights, cells, strict=True))
            variance = sum(w**2 * x.var(ddof=1) / len(x) for w, x in zip(weights, cells, strict=True))
            t_values.append(abs(estimate) / np.sqrt(variance))
    observed = float(abs(of_cells(a, b, c, d, weights=[0.5, -0.5, 0.5, -0.5]).estimate))
    observed /= float(of_cells(a, b, c, d, weights=[0.5, -0.5, 0.5, -0.5]).standard_error)
    found = permutation_test([a, b, c, d], [0.5, -0.5, 0.5, -0.5], ["f", "f", "g", "g"])
    assert len(t_values) == 20 * 10
    assert found.p == pytest.approx((np.array(t_values) >= observed * (1 - 1e-9)).mean())


def test_of_more_arrangements_than_can_be_counted_nothing_is_said():
    a, b = arms(6, 6, shift=2.0)
    halves = [a[:3], a[3:], b[:3], b[3:]]
    assert permutation_test(halves, [0.5, 0.5, -0.5, -0.5], ["f"] * 4) is None
    assert sign_flip_test([np.arange(15.0)], [1.0]) is None


def test_sign_flips_equal_scipy():
    a, b = arms(7, 7)

    def t(difference: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.abs(difference.mean(axis)) / difference.std(axis, ddof=1)

    expected = stats.permutation_test(
        (a - b,), t, permutation_type="samples", vectorized=True, n_resamples=np.inf, alternative="greater"
    )
    found = sign_flip_test([a - b], [1.0])
    assert found.p == pytest.approx(expected.pvalue)
    assert found.floor == pytest.approx(2 / 2**7)
