"""Reports of a study that grows: planned looks, and what was asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from report.analysis import Analysis
from report.compute import analyse
from report.inputs.sources import read_source
from report.parts.methods import methods_text
from report.request import Request
from report.statistics.looks import nominal_levels
from scores.rows import ROW_COLUMNS, write_rows

VARIANTS = {"gelu": 0.0, "kan": -4.0, "relu": 0.0}


class Growing:
    """A study of one family and one benchmark."""

    def __init__(self, folder: Path, **report: Any) -> None:
        self.folder = folder
        self.ask(**report)

    def ask(self, **report: Any) -> None:
        """Write the study's file, as submitting it does."""
        report = {"baseline": "gelu", "margin": 1.0} | report
        self.folder.mkdir(exist_ok=True)
        content = {"families": ["gpt_neo"], "variants": list(VARIANTS), "seeds": [1, 2, 3], "report": report}
        (self.folder / "study.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")

    def grow(self, num_seeds: int, decimals: int = 6) -> None:
        """Score every variant with so many seeds."""
        generator = np.random.default_rng(7)
        for seed in range(1, num_seeds + 1):
            for variant, shift in VARIANTS.items():
                run_id = f"gpt_neo/{variant}/seed{seed}-0a1b2c3d"
                score = round(70 + shift + generator.normal(), decimals)
                row = (
                    run_id,
                    "gpt_neo",
                    variant,
                    seed,
                    "blimp",
                    "agreement",
                    "a",
                    "accuracy",
                    score,
                    200,
                    "",
                )
                table = pd.DataFrame([row], columns=list(ROW_COLUMNS[:-1]))
                write_rows(table, self.folder / run_id / "eval" / "rows.parquet")

    def report(self, request: Request | None = None) -> Analysis:
        """Analyse without drawing anything."""
        return analyse(read_source(self.folder), request)


def kan(analysis: Analysis):
    return next(c for c in analysis.comparisons if str(c.contrast) == "kan - gelu")


@pytest.mark.ci
def test_planned_looks_are_tested_at_their_own_levels(tmp_path: Path):
    study = Growing(tmp_path / "s", looks=[3, 6])
    for num_seeds, path in ((3, (3,)), (4, (3, 4)), (6, (3, 6))):
        study.grow(num_seeds)
        found = study.report()
        one = kan(found)
        arms = [found.runs[found.runs.variant == v].score for v in ("kan", "gelu")]
        assert one.p == pytest.approx(stats.ttest_ind(*arms, equal_var=False).pvalue)
        nominal = nominal_levels(path, 6, 0.05)[-1]
        assert one.look.nominal(0.05) == pytest.approx(nominal, rel=1e-4)
        # The first of two by Holm: half of the level, spent over the looks.
        half = nominal_levels(path, 6, 0.025)[-1]
        assert one.is_different == (one.p < half)


@pytest.mark.slow
def test_intervals_agree_with_verdicts_at_every_look(tmp_path: Path):
    study = Growing(tmp_path / "s", looks=[3, 6, 10])
    for num_seeds in (3, 6):
        study.grow(num_seeds)
        for c in study.report().comparisons:
            assert c.low_simultaneous < c.low < c.high < c.high_simultaneous or c.is_different
            assert (c.low_simultaneous >= 0 or c.high_simultaneous <= 0) == c.is_different


@pytest.mark.slow
def test_looks_of_the_command_line_go_before_the_studys(tmp_path: Path):
    study = Growing(tmp_path / "s", looks=[3, 6])
    study.grow(6)
    assert kan(study.report()).look.nominal(0.05) > 0.04
    asked = study.report(Request(looks=("6", "12")))
    assert kan(asked).look.nominal(0.05) < 0.01


def test_methods_say_how_looks_are_counted(tmp_path: Path):
    study = Growing(tmp_path / "s", looks=[3, 6])
    study.grow(3)
    assert "looked at with 3, 6 runs in every arm" in methods_text(study.report())
    study.ask()
    assert "looked at" not in methods_text(study.report())
