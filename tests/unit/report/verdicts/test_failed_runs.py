"""Runs that failed: counted, tested, and no better for being gone."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.compute import analyse
from report.inputs.sources import read_source
from report.inputs.study_checks import FailedRun, failed_runs
from report.significance.arms import ArmTable
from report.significance.axes import Benchmark
from report.significance.comparison import Comparison, Inference, compare_with_baseline
from report.significance.multiple_comparisons import MultipleComparisons
from report.verdicts.failed_runs import FailureCount, count_failures, failure_notes, with_failed
from scores.metrics import Metric
from slurm.cell_state import CellState, write_state
from tests.unit.report.rendering import render
from tests.unit.report.run_folders import write_plan, write_run

NAME = Benchmark("x")


def scores_of(cells: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    rows = [
        (f"{family}/{variant}/seed{seed}-0", family, variant, seed, NAME, score)
        for (family, variant), of_arm in cells.items()
        for seed, score in enumerate(of_arm, start=1)
        if not math.isnan(score)
    ]
    return pd.DataFrame(rows, columns=["run_id", "family", "variant", "seed", "benchmark", "score"])


def analysed(cells: dict[tuple[str, str], list[float]]) -> tuple[tuple[FailureCount, ...], list[Comparison]]:
    """What is said of cells in which a run that diverged scores nan; the first variant is the baseline."""
    scores = scores_of(cells)
    metric = Metric(name="x", better="higher", margin=1.0)
    claims = MultipleComparisons({NAME: ArmTable.of_scores(scores, NAME, metric=metric)}, [NAME], Inference())
    variants = list(dict.fromkeys(variant for _, variant in cells))
    alone = compare_with_baseline(claims.tables[NAME], variants[0], variants[1:], claims.inference)
    failed = [
        FailedRun(f"{family}/{variant}/seed{seed}-0", family, variant, has_diverged=True)
        for (family, variant), of_arm in cells.items()
        for seed, score in enumerate(of_arm, start=1)
        if math.isnan(score)
    ]
    comparisons = with_failed(claims.correct(alone), failed, scores)
    ended = set(zip(scores.run_id, scores.family, scores.variant, strict=True))
    return count_failures(failed, ended, comparisons), comparisons


def fisher(failed: tuple[int, int], runs: tuple[int, int]) -> float:
    """Two-sided p: the probability of all tables that are no more probable than the one seen."""
    tables = stats.hypergeom(sum(runs), sum(failed), runs[0])
    p = tables.pmf(np.arange(sum(failed) + 1))
    return float(p[p <= tables.pmf(failed[0]) * (1 + 1e-9)].sum())


def test_shares_of_failed_runs_are_tested_over_the_variants():
    lost, nan = [50.0, 51.0], float("nan")
    cells = {
        ("f", "gelu"): [50.0, 51, 52, 50, 49, 51], ("g", "gelu"): [50.0, 51, 52, 50, 49, nan],
        ("f", "kan"): [*lost, nan, nan, nan, nan], ("g", "kan"): [*lost, nan, nan, nan, nan],
        ("f", "relu"): [50.0, 51, 52, 50, 49, nan], ("g", "relu"): [50.0, 51, 52, 50, 49, nan],
    }  # fmt: skip
    failures, comparisons = analysed(cells)
    whole = {c.variant: c for c in failures if c.family is None}
    assert {v: (c.num_diverged, c.num_runs) for v, c in whole.items()} == {
        "gelu": (1, 12), "kan": (8, 12), "relu": (2, 12),
    }  # fmt: skip
    p = {"kan": fisher((8, 1), (12, 12)), "relu": fisher((2, 1), (12, 12))}
    assert {v: whole[v].p for v in p} == pytest.approx(p)
    assert whole["kan"].p_corrected == pytest.approx(2 * p["kan"])
    assert whole["relu"].p_corrected == pytest.approx(max(2 * p["kan"], p["relu"]))
    assert whole["gelu"].p is None
    (note,) = failure_notes(failures, 0.05)
    assert note.startswith("kan failed in 8 of 12 runs, gelu in 1 of 12 (Fisher's exact test, Holm, p 0.0")
    overall = {c.contrast.compared: c.num_failed for c in comparisons if c.family is None}
    assert overall == {"kan": 9, "relu": 3}


def test_families_are_counted_whatever_was_scored_in_which():
    other = Benchmark("y")
    scores = scores_of({("f", v): [1.0, 2.0] for v in ("a", "b")})
    more = scores_of({("g", v): [1.0, 2.0] for v in ("a", "b")}).assign(benchmark=other)
    tables = {n: ArmTable.of_scores(x, n) for n, x in ((NAME, scores), (other, more))}
    claims = MultipleComparisons(tables, list(tables), Inference())
    alone = [c for t in tables.values() for c in compare_with_baseline(t, "a", ["b"], Inference())]
    failed = [FailedRun("g/b/seed3-0", "g", "b", has_diverged=True)]
    found = count_failures(failed, [], claims.correct(alone))
    assert [(c.family, c.num_diverged) for c in found if c.variant == "b"] == [(None, 1), ("f", 0), ("g", 1)]


def test_no_failed_run_no_word():
    failures, comparisons = analysed({("f", "gelu"): [50.0, 51, 52], ("f", "kan"): [50.0, 53, 52]})
    assert failures == ()
    assert comparisons[0].num_failed == 0


def test_only_what_ended_without_a_result_has_failed(tmp_path: Path):
    diverged, repeated = (tmp_path / "gpt_neo" / "kan" / f"seed{seed}-a" for seed in (1, 2))
    for run in (diverged, repeated):
        run.mkdir(parents=True)
        (run / "FAILED").write_text("{}")
    (repeated / "COMPLETED").write_text('{"results": {}}')
    states = ("failed", "done", "failed", "waiting", "missing", "running")
    for seed, name in enumerate(states, start=1):
        write_state(tmp_path, f"gpt_neo/kan/seed{seed}-a", CellState(name=name))
    found = failed_runs(tmp_path, None)
    assert [(run.family, run.variant, run.run_id[-7:], run.has_diverged) for run in found] == [
        ("gpt_neo", "kan", "seed1-a", True),
        ("gpt_neo", "kan", "seed3-a", False),
    ]
    assert failed_runs(tmp_path, frozenset({"gpt_neo/kan/seed2-a"})) == ()


def write_study(folder: Path, scores: dict[str, list[float]]) -> Path:
    """A study of one family; a run whose score is nan diverged."""
    run_ids = []
    for variant, of_variant in scores.items():
        for seed, score in enumerate(of_variant, start=1):
            run_ids.append(f"gpt_neo/{variant}/seed{seed}-0a1b2c3d")
            has_diverged = math.isnan(score)
            rows = [] if has_diverged else [("blimp", "t", "g", "accuracy", score)]
            run = write_run(folder, run_ids[-1], scores=rows)
            if has_diverged:
                run.completion_marker.unlink()
                run.failure_marker.write_text(json.dumps({"step": 7, "problem": "the loss is nan"}))
    return write_plan(folder, run_ids, report={"baseline": "gelu", "margin": 1.0})


def test_a_report_says_that_it_is_about_survivors(tmp_path: Path):
    nan = float("nan")
    study = write_study(
        tmp_path / "study",
        {"gelu": [70.1, 70.4, 69.8, 70.3, 69.9, 70.2], "kan": [73.1, nan, nan, 73.4, 72.8, 73.0],
         "swish": [70.2, 70.6, 69.9, 70.0, 70.1, 70.5]},
    )  # fmt: skip
    text = render(analyse(read_source(study)))
    top, rest = text.split("<details>", 1)
    assert "`kan` (of surviving runs) is better than `gelu` by 2.9" in top
    assert top.count("of surviving runs") == 2  # its sentence and its cell; swish lost none
    section = rest[rest.index("**Runs that failed**") :]
    assert "| `kan` | all | 6 | 2 | 0 | 0.9" in section
    assert "| `gelu` | all | 6 | 0 | 0 | - |" in section
