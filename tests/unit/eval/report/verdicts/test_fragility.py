"""What verdicts hang on, said in their cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import stats

from eval.report.analyse import analyse
from eval.report.analysis import Analysis, Request
from eval.report.inputs.sources import read_source
from eval.report.sections.verdicts import verdicts
from eval.report.verdicts.sensitivity import fragile_because
from tests.unit.eval.significance.comparing import table


def analysed(folder: Path, arms: dict[tuple[str, str], list[float]], **asked) -> Analysis:
    """Analyse scores by family and variant, seeds counted from 1."""
    table(arms, "b").to_csv(folder / "scores.csv", index=False)
    return analyse(read_source(folder / "scores.csv"), Request(**asked))


def reasons(found: Analysis) -> tuple[str, ...]:
    """What the only verdict hangs on."""
    (x,) = found.sensitivities
    return fragile_because(x, found.inference.level)


def test_one_run_that_carries_a_verdict_is_named(tmp_path: Path):
    gelu = [60.0, 60.4, 59.7, 60.1, 54.0]
    kan = [58.9, 59.2, 58.7, 59.1, 58.8]
    assert stats.ttest_ind(gelu, kan, equal_var=False).pvalue > 0.05
    assert stats.ttest_ind(gelu[:4], kan, equal_var=False).pvalue < 0.05
    found = analysed(tmp_path, {("f", "gelu"): gelu, ("f", "kan"): kan})
    assert reasons(found)[0] == "hangs on f gelu seed 5"
    assert "*hangs on f gelu seed 5*" in verdicts(found)


def test_arms_without_overlap_are_told_where_nothing_is_shown(tmp_path: Path):
    gelu, kan = [60.0, 60.1, 60.2, 60.3, 60.4, 60.2], [40.0, 59.9, 59.8, 59.7, 45.0, 59.6]
    assert stats.ttest_ind(gelu, kan, equal_var=False).pvalue > 0.05
    found = analysed(tmp_path, {("f", "gelu"): gelu, ("f", "kan"): kan})
    assert "all runs below all of the baseline's" in reasons(found)


def test_where_an_average_cannot_be_had_the_cell_has_the_families_that_can(shared_data: Path):
    found = analyse(read_source(shared_data / "thesis" / "all_seeds.csv"), Request())
    (row,) = (line for line in verdicts(found).splitlines() if line.startswith("| `kan` |"))
    glue = row.split("|")[3].strip()
    start = "not estimable<br>no run of roberta kan<br>in GPT-Neo:<br>inconclusive<br>-3.8<br>"
    assert glue.startswith(start)
    assert glue.endswith("<br>*all runs below all of the baseline's*")


def test_a_clear_difference_has_no_reason(tmp_path: Path):
    rng = np.random.default_rng(0)
    gelu, kan = rng.normal(60, 0.5, 6), rng.normal(66, 0.5, 6)
    assert reasons(analysed(tmp_path, {("f", "gelu"): list(gelu), ("f", "kan"): list(kan)})) == ()
