"""Whether verdicts are robust to leaving one run out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from report.analysis import Analysis
from report.compute import analyse
from report.inputs.sources import source_of_frame
from report.page import make_card
from report.parts.sensitivity import PART
from tests.unit.report.significance.comparing import table


def analysed(gelu: Sequence[float], kan: Sequence[float]) -> Analysis:
    return analyse(source_of_frame(table({("f", "gelu"): gelu, ("f", "kan"): kan}, "b")))


def changes(found: Analysis) -> dict[str, str]:
    """The verdicts without one run, where that is another one."""
    (x,) = PART.of(found) or ()
    return {run: c.verdict for run, c in x.changed}


def test_one_run_that_carries_a_verdict_is_named():
    gelu = [60.0, 60.4, 59.7, 60.1, 54.0]
    kan = [58.9, 59.2, 58.7, 59.1, 58.8]
    assert stats.ttest_ind(gelu, kan, equal_var=False).pvalue > 0.05
    assert stats.ttest_ind(gelu[:4], kan, equal_var=False).pvalue < 0.05
    found = analysed(gelu, kan)
    assert changes(found) == {"f gelu seed 5": "different"}
    assert "Shown only without one run: `kan`." in make_card(found).checks


def test_a_clear_difference_is_robust():
    rng = np.random.default_rng(0)
    assert changes(analysed(rng.normal(60, 0.5, 6), rng.normal(66, 0.5, 6))) == {}
