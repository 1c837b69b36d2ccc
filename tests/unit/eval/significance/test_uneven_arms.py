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
from eval.significance.uneven_arms import false_rate, uneven_notes

STUDIES = 100_000
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


def simulated(counts: tuple[int, ...], spreads: tuple[float, ...], level: float) -> float:
    """Share of studies in which Welch's test, by its formula, is below the level."""
    rng = np.random.default_rng(7)
    arms = [spread * rng.normal(size=(STUDIES, n)) for n, spread in zip(counts, spreads, strict=True)]
    terms = np.array([x.var(1, ddof=1) / n for x, n in zip(arms, counts, strict=True)])
    df = terms.sum(0) ** 2 / (terms**2 / (np.array(counts)[:, None] - 1)).sum(0)
    estimate = sum((-1) ** place * x.mean(1) for place, x in enumerate(arms))
    return float((2 * stats.t.sf(np.abs(estimate) / np.sqrt(terms.sum(0)), df) < level).mean())


@pytest.mark.parametrize("counts", [(2, 10), (3, 6), (5, 5), (2, 10, 3, 3)])
@pytest.mark.parametrize("spread", [1.0, 3.0])
@pytest.mark.parametrize("level", [0.05, 0.01])
@pytest.mark.ci
def test_the_rate_is_that_of_a_plain_simulation(counts: tuple[int, ...], spread: float, level: float):
    spreads = (spread, *[1.0] * (len(counts) - 1))
    found = false_rate(counts, spreads, level)
    assert found == pytest.approx(simulated(counts, spreads, level), abs=4 * np.sqrt(found / STUDIES))


@pytest.mark.parametrize(("few", "many", "num_variants"), [(2, 10, 3), (3, 10, 6), (2, 2, 3), (9, 10, 3)])
def test_it_is_said_where_arms_are_unlike_enough(few: int, many: int, num_variants: int):
    arms = ArmTable.of_scores(rows(few, many, num_variants), ONE)
    names = [f"v{i}" for i in range(num_variants)]
    alone = compare_with_baseline(arms, "gelu", names, Inference(), thorough=False)
    claims = Claims({ONE: arms}, (ONE,), Inference()).correct(alone)
    assert bool(uneven_notes(claims, {ONE: arms}, Inference())) == (few < 9 and few != many)


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

    assert (
        "with 2 to 10 runs in an arm, a variant like its baseline is called different 3.9 times"
        in warnings(2)
    )
    assert "is called different" not in warnings(10)
    assert "is called different" not in warnings(2, paired=True)
