"""Sizes of effects, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from report.statistics.welch import hedges_g


def test_hedges_g_by_hand():
    cells = [np.array([1.0, 3.0]), np.array([2.0, 6.0])]
    pooled = np.sqrt((2.0 + 8.0) / 2)  # variances 2 and 8, one degree of freedom each
    assert hedges_g(-2.0, cells) == pytest.approx(-2.0 / pooled * (1 - 3 / 7))
    assert hedges_g(1.0, [np.ones(3), np.zeros(3)]) is None
