"""Whether verdicts are robust to leaving one run out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import stats

from report.analysis import Analysis
from report.compute import analyse
from report.inputs.sources import read_source
from report.page import make_card
from report.parts.sensitivity import PART
from report.request import Request
from tests.unit.report.significance.comparing import table


def analysed(folder: Path, arms: dict[tuple[str, str], list[float]], **asked) -> Analysis:
    """Analyse scores by family and variant, seeds counted from 1."""
    table(arms, "b").to_csv(folder / "scores.csv", index=False)
    return analyse(read_source(folder / "scores.csv"), Request(**asked))


def changes(found: Analysis) -> dict[str, str]:
    """The verdicts without one run, where that is another one."""
    (x,) = PART.of(found) or ()
    return {run: c.verdict for run, c in x.changed}


def test_one_run_that_carries_a_verdict_is_named(tmp_path: Path):
    gelu = [60.0, 60.4, 59.7, 60.1, 54.0]
    kan = [58.9, 59.2, 58.7, 59.1, 58.8]
    assert stats.ttest_ind(gelu, kan, equal_var=False).pvalue > 0.05
    assert stats.ttest_ind(gelu[:4], kan, equal_var=False).pvalue < 0.05
    found = analysed(tmp_path, {("f", "gelu"): gelu, ("f", "kan"): kan})
    assert changes(found) == {"f gelu seed 5": "different"}
    assert "Shown only without one run: `kan`." in make_card(found).checks


def test_a_clear_difference_is_robust(tmp_path: Path):
    rng = np.random.default_rng(0)
    gelu, kan = rng.normal(60, 0.5, 6), rng.normal(66, 0.5, 6)
    assert changes(analysed(tmp_path, {("f", "gelu"): list(gelu), ("f", "kan"): list(kan)})) == {}
