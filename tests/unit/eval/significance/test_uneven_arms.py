"""How often claims are wrong where arms differ in size, against simulation by plain numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from eval.report.analyse import analyse
from eval.report.analysis import Request
from eval.report.inputs.sources import read_source
from eval.significance.arms import ArmTable
from eval.significance.axes import Benchmark
from eval.significance.claims import Claims
from eval.significance.compare import compare_with_baseline
from eval.significance.comparison import Inference
from eval.significance.uneven_arms import SPREAD_OF_FEW, false_claims, uneven_notes

STUDIES = 20_000
ONE = Benchmark("b")
SHAPES = [(2, 6, 1), (2, 6, 2), (2, 10, 1), (2, 10, 2), (3, 6, 1), (3, 10, 1), (5, 10, 1)]


def rows(few: int, many: int, num_variants: int) -> pd.DataFrame:
    rng = np.random.default_rng(few)
    sizes = {"gelu": many, **{f"v{i}": few for i in range(num_variants)}}
    return pd.DataFrame(
        {"family": "f", "variant": v, "seed": s, "benchmark": "b", "score": round(50 + rng.normal(), 4)}
        for v, size in sizes.items()
        for s in range(size)
    )


def simulated(few: int, many: int, num_variants: int, spread: float) -> float:
    """Share of studies in which scipy's Welch test is below Bonferroni's level for any variant."""
    rng = np.random.default_rng(7)
    baseline = rng.normal(size=(STUDIES, many))
    smallest = np.ones(STUDIES)
    for _ in range(num_variants):
        variant = rng.normal(scale=spread, size=(STUDIES, few))
        p = stats.ttest_ind(variant, baseline, axis=1, equal_var=False).pvalue
        smallest = np.minimum(smallest, p)
    return float((smallest < 0.05 / num_variants).mean())


@pytest.mark.parametrize(("few", "many", "num_variants"), [(2, 10, 3), (3, 10, 6), (2, 2, 3)])
def test_the_shares_are_those_of_a_plain_simulation(few: int, many: int, num_variants: int):
    arms = ArmTable.of_scores(rows(few, many, num_variants), ONE)
    names = [f"v{i}" for i in range(num_variants)]
    inference = Inference(resamples=100)
    alone = compare_with_baseline(arms, "gelu", names, inference, thorough=False)
    claims = Claims({ONE: arms}, (ONE,), inference).correct(alone)
    # Where all have as few, the baseline spreads as far, too.
    spreads = (1.0, 1.0 if few == many else SPREAD_OF_FEW)
    expected = [simulated(few, many, num_variants, spread) for spread in spreads]
    assert false_claims(claims, {ONE: arms}, inference) == pytest.approx(expected, abs=0.015)
    assert bool(uneven_notes(claims, {ONE: arms}, inference)) == (few != many)


@pytest.mark.slow
def test_table_of_false_claims():
    """Nine variants, six outcomes that correlate by a half."""
    for few, many, families in SHAPES:
        found = [any_false(few, many, families, spread) for spread in (1.0, 3.0)]
        print(f"| {few} against {many} | {families} |", " | ".join(f"{100 * x:.0f}" for x in found), "|")
        assert found[0] > 0.05
        assert found[1] > found[0]


def any_false(few: int, many: int, families: int, spread: float, studies: int = 10_000) -> float:
    """Draw Welch's tests averaged over families, by the formula."""
    rng = np.random.default_rng([few, many, families, int(spread)])

    def runs(count: int) -> np.ndarray:
        shared = rng.normal(size=(studies, families, count, 1))
        return np.sqrt(0.5) * (shared + rng.normal(size=(studies, families, count, 6)))

    baseline = runs(many)
    smallest = np.ones(studies)
    for _ in range(9):
        variant = spread * runs(few)
        terms = [x.var(2, ddof=1) / n / families**2 for x, n in ((variant, few), (baseline, many))]
        variance = sum(terms).sum(1)
        df = variance**2 / (terms[0] ** 2 / (few - 1) + terms[1] ** 2 / (many - 1)).sum(1)
        estimate = (variant.mean(2) - baseline.mean(2)).mean(1)
        p = 2 * stats.t.sf(np.abs(estimate) / np.sqrt(variance), df)
        smallest = np.minimum(smallest, p.min(1))
    return float((smallest < 0.05 / 54).mean())


def test_a_report_warns_of_few_runs_against_many(tmp_path: Path):
    def warnings(few: int, **asked) -> str:
        rows(few, 10, 4).to_csv(tmp_path / "scores.csv", index=False)
        return " ".join(analyse(read_source(tmp_path / "scores.csv"), Request(**asked)).warnings)

    assert "with 2 to 10 runs in an arm, variants like their baseline are claimed to differ in" in warnings(2)
    assert "are claimed to differ" not in warnings(10)
    assert "are claimed to differ" not in warnings(2, paired=True)
