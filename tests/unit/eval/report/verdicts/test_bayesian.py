"""The Bayesian view of a report: its plumbing against plain numpy and scipy where runs are many."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from eval.report.analyse import analyse
from eval.report.analysis import Analysis, Request
from eval.report.exports import number_tables
from eval.report.inputs.sources import read_source
from eval.report.markdown_report import render
from eval.report.sections.bayesian import probability
from eval.report.sections.context import Context
from eval.report.verdicts.bayesian import Posterior

COLUMNS = ["family", "variant", "seed", "benchmark", "score"]


def analysis_of(rows: list[tuple], tmp_path: Path, columns=COLUMNS, **request) -> Analysis:
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "scores.csv", index=False)
    return analyse(read_source(tmp_path / "scores.csv"), Request(baseline="gelu", **request))


def text_of(analysis: Analysis) -> str:
    return render(analysis, Context(command="", versions={}, figures={}))


def found_of(analysis: Analysis, variant: str, part: str | None = None) -> Posterior:
    return next(x for x in analysis.bayesian if (x.variant, x.part) == (variant, part))


def test_of_many_runs_percentages_agree_with_plain_means(tmp_path: Path):
    rng = np.random.default_rng(0)
    levels = {("a", "gelu"): 60, ("a", "kan"): 57, ("b", "gelu"): 70, ("b", "kan"): 71}
    arms = {key: level + rng.normal(size=60) for key, level in levels.items()}
    rows = [(f, v, s, "x", x) for (f, v), arm in arms.items() for s, x in enumerate(arm)]
    found = found_of(analysis_of(rows, tmp_path), "kan")
    estimate = np.mean([arms[f, "kan"].mean() - arms[f, "gelu"].mean() for f in "ab"])
    error = np.sqrt(sum(arm.var(ddof=1) / 60 for arm in arms.values())) / 2
    assert [found.low, found.median, found.high] == pytest.approx(
        estimate + error * np.array([-1.97, 0, 1.97]), abs=0.03
    )
    assert found.within == pytest.approx(stats.norm.cdf((estimate + 1) / error), abs=0.04)  # margin 1
    assert found.worse == pytest.approx(1 - found.within, abs=1e-9)
    assert found.better == 0
    assert (found.unit, found.margin, found.is_predicted) == ("percent", 1.0, False)


def test_losses_of_families_are_compared_as_ratios_and_better_when_lower(tmp_path: Path):
    rng = np.random.default_rng(1)
    levels = {("a", "gelu"): 2.0, ("a", "kan"): 1.94, ("b", "gelu"): 6.0, ("b", "kan"): 5.7}
    arms = {key: level * np.exp(0.01 * rng.normal(size=40)) for key, level in levels.items()}
    rows = [(f, v, s, "held-out-loss", x) for (f, v), arm in arms.items() for s, x in enumerate(arm)]
    found = found_of(analysis_of(rows, tmp_path), "kan")
    ratio = np.mean([np.log(arms[f, "kan"]).mean() - np.log(arms[f, "gelu"]).mean() for f in "ab"])
    assert found.median == pytest.approx(100 * np.expm1(ratio), abs=0.1)
    margin = np.mean([np.log1p(0.02 / arms[f, "gelu"].mean()) for f in "ab"])
    assert found.margin == pytest.approx(100 * np.expm1(margin))
    assert found.better > 0.99
    assert found.unit == "percent"


def parts_rows() -> list[tuple]:
    """One family, four variants; in one of eight phenomena of two tasks ``kan`` is far better."""
    rng = np.random.default_rng(2)
    return [
        ("a", variant, seed, "x", f"task{part}{i}", f"part{part}", 70 + run + rng.normal() + lead[part])
        for variant in ("gelu", "kan", "relu", "silu")
        for lead in [[4 * (variant == "kan")] + 7 * [0]]
        for seed in range(5)
        for run in [rng.normal()]
        for part in range(8)
        for i in range(2)
    ]  # fmt: skip


def test_parts_are_shrunken_and_stand_beside_the_differences_themselves(tmp_path: Path):
    analysis = analysis_of(
        parts_rows(), tmp_path, ["family", "variant", "seed", "benchmark", "task", "group", "score"]
    )
    raw = {(c.part, c.contrast.compared): c.estimate for c in analysis.parts}
    shrunken = {(x.part, x.variant): x.median for x in analysis.bayesian if x.part}
    assert set(shrunken) == set(raw)
    whole = {x.variant: x.median for x in analysis.bayesian if x.part is None}
    spreads = [
        np.std([table[key] - whole[key[1]] for key in raw if key != ("part0", "kan")])
        for table in (shrunken, raw)
    ]
    assert spreads[0] < 0.8 * spreads[1]
    assert 2 < shrunken["part0", "kan"] < raw["part0", "kan"]
    cells = re.search(r"\| part0 \| .*", text_of(analysis)).group()
    assert f" → {shrunken['part0', 'kan']:+.1f}" in cells
    table = number_tables(analysis)["bayesian"]
    assert len(table) == 3 + 3 * 8
    assert table["better"].add(table["worse"]).add(table["within"]).to_numpy() == pytest.approx(1)


def test_a_variant_that_lacks_a_family_is_predicted_and_marked(tmp_path: Path):
    rng = np.random.default_rng(3)
    arms = [(f, v) for f in "ab" for v in ("gelu", "kan", "relu") if (f, v) != ("b", "kan")]
    rows = [(f, v, s, "x", 60 + rng.normal()) for f, v in arms for s in range(4)]
    analysis = analysis_of(rows, tmp_path)
    assert [x.is_predicted for x in analysis.bayesian] == [True, False]
    text = text_of(analysis)
    assert "| x | `kan`* |" in text
    assert "*: a family has no run of this variant" in text


def test_arms_of_one_run_have_no_spread_to_take_a_prior_from(tmp_path: Path):
    rows = [("a", v, 1, "x", 60.0 + i) for i, v in enumerate(("gelu", "kan", "relu"))]
    analysis = analysis_of(rows, tmp_path)
    assert analysis.bayesian == ()
    assert "Bayesian" not in text_of(analysis)


def test_an_outcome_at_chance_has_no_likeness(tmp_path: Path):
    rng = np.random.default_rng(4)
    rows = [("a", v, s, "blimp", 50 + 0.2 * rng.normal()) for v in ("gelu", "kan") for s in range(5)]
    row = next(line for line in text_of(analysis_of(rows, tmp_path)).splitlines() if "| 1 point | at" in line)
    assert row.startswith("| blimp | `kan` |")
    assert row.count("at chance") == 1


@pytest.mark.parametrize(("value", "text"), [(0.0, "<1%"), (0.006, "1%"), (0.5, "50%"), (0.9951, ">99%")])
def test_probabilities_are_never_written_as_certain(value: float, text: str):
    assert probability(value) == text
