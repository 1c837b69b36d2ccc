"""Reports of a study that grows: planned looks, and what was asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from report.analysis import Analysis
from report.compute import analyse
from report.inputs.sources import read_source
from report.parts.methods import methods_text
from report.request import Request
from report.significance.comparison import Comparison
from report.statistics.looks import nominal_levels
from tests.unit.report.run_folders import write_plan, write_run

VARIANTS = {"gelu": 0.0, "kan": -4.0, "relu": 0.0}


def study_of(folder: Path, num_seeds: int, **report: Any) -> Path:
    """A study of one family and one benchmark that has come to so many seeds."""
    generator, run_ids = np.random.default_rng(7), []
    for seed in range(1, num_seeds + 1):
        for variant, shift in VARIANTS.items():
            run_ids.append(f"gpt_neo/{variant}/seed{seed}-0a1b2c3d")
            score = ("blimp", "agreement", "a", "accuracy", 70 + shift + generator.normal())
            write_run(folder, run_ids[-1], scores=[score])
    return write_plan(folder, run_ids, report={"baseline": "gelu", "margin": 1.0, **report})


def report_of(study: Path, request: Request | None = None) -> Analysis:
    return analyse(read_source(study), request)


def kan(analysis: Analysis) -> Comparison:
    return next(c for c in analysis.comparisons if str(c.contrast) == "kan - gelu")


@pytest.mark.ci
@pytest.mark.parametrize(("num_seeds", "path"), [(3, (3,)), (4, (3, 4)), (6, (3, 6))])
def test_planned_looks_are_tested_at_their_own_levels(tmp_path: Path, num_seeds: int, path: tuple[int, ...]):
    found = report_of(study_of(tmp_path / "s", num_seeds, looks=[3, 6]))
    one = kan(found)
    arms = [found.runs[found.runs.variant == v].score for v in ("kan", "gelu")]
    assert one.p == pytest.approx(stats.ttest_ind(*arms, equal_var=False).pvalue)
    nominal = nominal_levels(path, 6, 0.05)[-1]
    assert one.look.nominal(0.05) == pytest.approx(nominal, rel=1e-4)
    # The first of two by Holm: half of the level, spent over the looks.
    half = nominal_levels(path, 6, 0.025)[-1]
    assert one.is_different == (one.p < half)


@pytest.mark.slow
@pytest.mark.parametrize("num_seeds", [3, 6])
def test_intervals_agree_with_verdicts_at_every_look(tmp_path: Path, num_seeds: int):
    for c in report_of(study_of(tmp_path / "s", num_seeds, looks=[3, 6, 10])).comparisons:
        assert c.low_simultaneous < c.low < c.high < c.high_simultaneous or c.is_different
        assert (c.low_simultaneous >= 0 or c.high_simultaneous <= 0) == c.is_different


@pytest.mark.slow
def test_looks_of_the_command_line_go_before_the_studys(tmp_path: Path):
    study = study_of(tmp_path / "s", 6, looks=[3, 6])
    assert kan(report_of(study)).look.nominal(0.05) > 0.04
    assert kan(report_of(study, Request(looks=("6", "12")))).look.nominal(0.05) < 0.01


def test_methods_say_how_looks_are_counted(tmp_path: Path):
    planned, at_once = study_of(tmp_path / "planned", 3, looks=[3, 6]), study_of(tmp_path / "at-once", 3)
    assert "looked at with 3, 6 runs in every arm" in methods_text(report_of(planned))
    assert "looked at" not in methods_text(report_of(at_once))
