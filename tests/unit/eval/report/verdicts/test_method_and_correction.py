"""What verdicts rest on and how claims are corrected: chosen in the study or asked for, and said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from base.errors import UsageError
from eval.report.analyse import analyse
from eval.report.analysis import Analysis, Request
from eval.report.inputs.sources import read_source
from eval.report.markdown_report import render
from eval.report.sections.context import Context
from eval.results.rows import write_rows
from eval.significance.comparison import NOT_ESTIMABLE
from pretrain.run.folders import RunFolder, StudyFolder

NO_FIGURES = Context(command="", versions={}, figures={})


def scores(num_runs: int) -> pd.DataFrame:
    rng = np.random.default_rng(num_runs)
    return pd.DataFrame(
        {"family": "gpt_neo", "variant": v, "seed": s, "benchmark": b, "score": 60 + 2 * (v == "kan") + noise}
        for v in ("gelu", "kan", "swish")
        for s in range(1, num_runs + 1)
        for b, noise in zip(("blimp", "glue"), rng.normal(size=2), strict=True)
    )


def of_table(folder: Path, num_runs: int, **asked) -> Analysis:
    scores(num_runs).to_csv(folder / "scores.csv", index=False)
    return analyse(read_source(folder / "scores.csv"), Request(**asked))


def of_study(folder: Path, report: dict[str, object], **asked) -> Analysis:
    for (variant, seed), run in scores(5).groupby(["variant", "seed"]):
        rows = run.assign(task="t", group="g", metric="accuracy", n_items=100, head="", primary=True)
        place = folder / "gpt_neo" / str(variant) / f"seed{seed}-0123456789"
        write_rows(rows.assign(run_id=RunFolder(place).run_id), RunFolder(place).rows_file)
    lists = {"families": ["gpt_neo"], "variants": ["gelu", "kan", "swish"], "seeds": [1, 2, 3, 4, 5]}
    StudyFolder(folder).study_file.write_text(yaml.safe_dump({**lists, "report": report}))
    return analyse(read_source(folder), Request(**asked))


def test_bootstrap_is_said_wherever_welch_would_be(tmp_path: Path):
    text = render(of_table(tmp_path, 6, method="bootstrap"), NO_FIGURES)
    assert "95% intervals of the studentized bootstrap" in text
    assert "*Alone*: the studentized bootstrap's 95% interval" in text
    assert "| Welch | p (permutation) |" in text
    assert "Beside this stands Welch's 95% interval and p" in text
    assert "with generator seed 0, knows a p of 0.05 to 0.004" in text
    usual = render(of_table(tmp_path, 6), NO_FIGURES)
    assert "*Alone*: Welch's 95% interval" in usual
    assert "| smallest margin | p (permutation) |" in usual
    assert "generator seed" not in usual


def test_too_few_runs_are_said_in_the_cell(tmp_path: Path):
    found = of_table(tmp_path, 4, method="bootstrap")
    assert {c.verdict for c in found.comparisons} == {NOT_ESTIMABLE}
    reason = "the bootstrap needs 5 runs in every arm, and has 4 in gpt_neo gelu, 4 in gpt_neo kan"
    assert reason in render(found, NO_FIGURES)


def test_one_run_less_does_not_end_what_five_allow(tmp_path: Path):
    """Sensitivity leaves out each run in turn: all verdicts would hang on one run where four were too few."""
    found = of_table(tmp_path, 5, method="bootstrap")
    assert not any(verdict == NOT_ESTIMABLE for x in found.sensitivities for _, verdict in x.changed)


def test_max_t_is_said_and_milder_than_holm(tmp_path: Path):
    by_holm, found = of_table(tmp_path, 6), of_table(tmp_path, 6, correction="max-t")
    text = render(found, NO_FIGURES)
    assert "Step-down max-t (Westfall and Young 1993; Romano and Wolf 2005) by 10,000 studies" in text
    assert "| p (corrected) |" in text
    assert "| p (Holm) |" in render(by_holm, NO_FIGURES)
    pairs = list(zip(found.claims, by_holm.claims, strict=True))
    assert all((one.p_holm or 0) <= (other.p_holm or 0) + 0.002 for one, other in pairs)
    assert any((one.p_holm or 0) < (other.p_holm or 0) - 0.01 for one, other in pairs)


@pytest.mark.parametrize(
    ("report", "asked", "expected"),
    [
        ({}, {}, ("welch", "holm")),
        ({"method": "bootstrap", "correction": "max-t"}, {}, ("bootstrap", "max-t")),
        ({"method": "bootstrap"}, {"method": "welch", "correction": "max-t"}, ("welch", "max-t")),
        ({"method": "bootstrap"}, {"method": "source-study"}, ("welch", "holm")),
    ],
)
@pytest.mark.ci
def test_what_is_asked_now_goes_before_the_study(tmp_path: Path, report: dict, asked: dict, expected: tuple):
    found = of_study(tmp_path, report, **asked)
    assert (found.inference.method, found.inference.correction) == expected


@pytest.mark.parametrize("name", ["method", "correction"])
def test_other_names_are_refused_in_one_line(tmp_path: Path, name: str):
    with pytest.raises(UsageError, match=f"report.{name} in .*'jackknife'") as refused:
        of_study(tmp_path, {name: "jackknife"})
    assert "\n" not in str(refused.value)
