"""Pairs by scipy's Welch test and Holm's steps written out; groups by what they promise."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.all_pairs import groups, letter, told_apart


def by_scipy(runs: np.ndarray, level: float) -> np.ndarray:
    """Every pair by ``ttest_ind``, the smallest p against level / P, the next against level / (P - 1), ..."""
    pairs = list(combinations(range(len(runs)), 2))
    p = [stats.ttest_ind(runs[a], runs[b], equal_var=False).pvalue for a, b in pairs]
    shown = np.zeros((len(runs), len(runs)), dtype=bool)
    for rank, place in enumerate(np.argsort(p)):
        if p[place] >= level / (len(pairs) - rank):
            break
        shown[pairs[place]] = shown[pairs[place][::-1]] = True
    return shown


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("arms", "seeds"), [(2, 3), (6, 5), (15, 4)])
def test_pairs_are_those_of_welch_and_holm(arms, seeds, seed):
    rng = np.random.default_rng([arms, seed])
    runs = rng.normal(size=(arms, seeds)) * rng.uniform(0.5, 2, (arms, 1)) + 4 * rng.normal(size=(arms, 1))
    found = told_apart(runs.mean(1), runs.var(1, ddof=1), seeds, 0.05)
    np.testing.assert_array_equal(found, by_scipy(runs, 0.05))
    assert arms < 6 or found.any()


def test_what_a_choice_adds_takes_differences_away():
    means, variances = np.array([0.0, 1.0, 2.0]), np.full(3, 0.01)
    assert told_apart(means, variances, 5, 0.05)[np.triu_indices(3, 1)].all()
    assert not told_apart(means, variances, 5, 0.05, added=[1.0, 1.0, 1.0], added_df=4).any()


def test_arms_without_spread_are_not_told_apart():
    assert not told_apart([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], 3, 0.05).any()


@pytest.mark.parametrize("seed", range(30))
def test_two_arms_share_a_group_exactly_where_they_are_not_told_apart(seed):
    """For any pattern at all, transitive or not; and no group is part of another, no arm in one in vain."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 9))
    differ = np.triu(rng.random((count, count)) < rng.random(), 1)
    differ = differ | differ.T
    found = groups(differ)
    assert {arm for group in found for arm in group} == set(range(count))
    for one, other in combinations(range(count), 2):
        assert any(one in group and other in group for group in found) == (not differ[one, other])
    for one, other in combinations(found, 2):
        assert not set(one) <= set(other)
        assert not set(other) <= set(one)
    assert found == sorted(found)
    for group in found:
        for arm in group:
            others = [set(other) for other in found if other is not group]
            pairs = [{arm, member} for member in group]
            assert any(not any(pair <= other for other in others) for pair in pairs)


def test_a_group_keeps_whom_its_pairs_need():
    differ = np.abs(np.subtract.outer(range(5), range(5))) > 2
    assert groups(differ) == [[0, 1, 2], [1, 3], [2, 3, 4]]


def test_letters_go_on_after_z():
    assert [letter(n) for n in (0, 1, 25, 26, 27, 51, 52)] == ["a", "b", "z", "aa", "ab", "az", "ba"]
