"""Decision accuracy across sizes against every pair and every seed counted one by one."""

from __future__ import annotations

from itertools import combinations, product
from statistics import mean

import numpy as np
import pytest

from eval.significance.statistics.size_decisions import size_decisions


def sign(x: float) -> int:
    return int(x > 0) - int(x < 0)


def counted(small: list[list[np.ndarray]], target: list[list[np.ndarray]]) -> tuple[float, float]:
    """Agreement of means and of single seeds, in words."""
    of_means, of_seeds = [], []
    for runs, of_target in zip(small, target, strict=True):
        for a, b in combinations(range(len(runs)), 2):
            right = sign(mean(of_target[a]) - mean(of_target[b]))
            of_means.append((1 + right * sign(mean(runs[a]) - mean(runs[b]))) / 2)
            each = [(1 + right * sign(x - y)) / 2 for x, y in product(runs[a], runs[b])]
            of_seeds.append(mean(each))
    return mean(of_means), mean(of_seeds)


@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_counting_gives(seed: int):
    rng = np.random.default_rng(seed)
    small, target = (
        [[rng.normal(v, 2, size=n) for v, n in enumerate((3, 4, 2, 5))] for _ in range(2)] for _ in range(2)
    )
    found = size_decisions(small, target, rng, draws=200)
    assert found is not None
    assert (found.of_means.estimate, found.of_seeds.estimate) == pytest.approx(counted(small, target))
    assert found.num_pairs == 12
    for share in (found.of_means, found.of_seeds):
        assert 0 <= share.low <= share.high <= 1


def test_the_same_order_far_apart_is_always_right_and_the_opposite_never():
    rng = np.random.default_rng(0)
    arms = [[v + 0.01 * rng.normal(size=3) for v in range(4)]]
    alike = size_decisions(arms, arms, rng)
    opposite = size_decisions(arms, [arms[0][::-1]], rng)
    assert alike is not None
    assert opposite is not None
    assert alike.of_seeds == (1, 1, 1)
    assert opposite.of_means == (0, 0, 0)


def test_equal_scores_are_guesses_and_one_variant_decides_nothing():
    rng = np.random.default_rng(0)
    tied = [[np.ones(3), np.ones(3)]]
    found = size_decisions(tied, tied, rng)
    assert found is not None
    assert found.of_means.estimate == found.of_seeds.estimate == 0.5
    assert size_decisions([[np.ones(3)]], [[np.ones(3)]], rng) is None


def test_its_interval_is_that_of_resampled_seeds():
    rng = np.random.default_rng(1)
    small, target = ([[rng.normal(v, 1, size=3) for v in range(3)]] for _ in range(2))
    found = size_decisions(small, target, np.random.default_rng(2), draws=4_000)
    assert found is not None
    other = np.random.default_rng(3)
    drawn = []
    for _ in range(1_500):
        again = [[[other.choice(x, len(x)) for x in f] for f in arms] for arms in (small, target)]
        drawn.append(counted(*again)[1])
    assert found.of_seeds[1:] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.06)
