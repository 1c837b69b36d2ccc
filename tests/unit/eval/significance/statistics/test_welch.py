"""Welch's analysis of variance against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from eval.significance.statistics.welch import welch_anova_p


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_welch_anova_equals_scipy(groups: int):
    rng = np.random.default_rng(groups)
    cells = [rng.normal(group / 2, 1 + group, 4 + group) for group in range(groups)]
    expected = stats.f_oneway(*cells, equal_var=False).pvalue
    squares = [cell.var(ddof=1) / len(cell) for cell in cells]
    found = welch_anova_p([cell.mean() for cell in cells], squares, [len(cell) - 1 for cell in cells])
    assert found == pytest.approx(expected, rel=1e-9)
