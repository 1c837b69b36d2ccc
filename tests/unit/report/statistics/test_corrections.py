"""Corrections for many tests, against their definitions and scipy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from report.statistics.corrections import Holm


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


@given(st.lists(st.none() | st.floats(1e-6, 1.0), max_size=12))
def test_levels_agree_with_what_is_not_shown(p_values: list[float | None]):
    """Its p is not below its level, so that its interval holds zero."""
    corrected, levels = Holm().adjust(p_values), Holm().levels(p_values, 0.05)
    for p, own, level in zip(corrected, p_values, levels, strict=True):
        assert (p is None) == (own is None) == (level is None)
        if p is not None and own is not None and level is not None and p >= 0.05:
            assert own >= level * (1 - 1e-12)


def half_width(levels: np.ndarray) -> np.ndarray:
    return stats.norm.isf(levels / 2)


@pytest.mark.parametrize(("distance", "is_far_off"), [(0.0, False), (3.5, False), (4.5, True)])
def test_intervals_hold_together_even_where_most_differences_are_shown(distance: float, is_far_off: bool):
    """Levels shared only among what is not shown would miss what Holm's tests miss."""
    rng, num_tests, studies = np.random.default_rng(4), 54, 1_000
    off = rng.normal(size=(studies, num_tests))
    p_values = 2 * stats.norm.sf(np.abs(off + distance))
    missed_by_levels = missed_by_steps = 0
    for of_study, p in zip(off, p_values, strict=True):
        levels = Holm().levels(p.tolist(), 0.05)
        missed_by_levels += bool((np.abs(of_study) > half_width(np.array(levels, float))).any())
        corrected = np.array(Holm().adjust(p.tolist()), float)
        is_open = corrected >= 0.05
        steps = np.where(is_open, 0.05 / max(1, is_open.sum()), 0.05 / num_tests)
        missed_by_steps += bool((np.abs(of_study) > half_width(steps)).any())
    assert missed_by_levels <= stats.binom.ppf(1 - 1e-4, studies, 0.05)
    assert (missed_by_steps > 0.2 * studies) == is_far_off
