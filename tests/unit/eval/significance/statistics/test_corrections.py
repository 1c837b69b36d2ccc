"""Corrections for many tests, against their definitions and scipy."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from eval.significance.statistics.corrections import BenjaminiHochberg, Holm


def test_holm_by_hand():
    assert Holm().adjust([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert Holm().adjust([0.5, 0.9]) == [1.0, 1.0]
    assert Holm().adjust([]) == []
    assert Holm().adjust([0.02, None, 0.03]) == [0.04, None, 0.04]


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=5))
def test_holm_equals_the_closed_test_of_bonferroni(p_values: list[float]):
    """Holm is the closure of Bonferroni: a hypothesis' p is the largest over all subsets that hold it."""
    indices = range(len(p_values))
    expected = [
        max(
            min(1.0, len(subset) * min(p_values[j] for j in subset))
            for size in range(1, len(p_values) + 1)
            for subset in itertools.combinations(indices, size)
            if i in subset
        )
        for i in indices
    ]
    assert Holm().adjust(p_values) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1.0), min_size=1, max_size=30))
def test_benjamini_hochberg_equals_scipy(p_values: list[float]):
    assert BenjaminiHochberg().adjust(p_values) == pytest.approx(
        stats.false_discovery_control(p_values).tolist()
    )


def test_benjamini_hochberg_leaves_out_what_is_not_estimable():
    assert BenjaminiHochberg().adjust([0.01, None, 0.04]) == pytest.approx([0.02, None, 0.04])
