"""First sentences of simulated studies: those of the whole report, and how often they are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.claims import FAMILIES, truth
from benchmarks.simulated import BASELINE, Scenario, findings_of, measure_claims
from eval.report.analyse import analyse
from eval.report.inputs.sources import read_source
from eval.report.sections.answer import answer, explored
from eval.significance.arms import ArmTable
from eval.significance.axes import Benchmark


def as_csv(tables: Mapping[Benchmark, ArmTable], path: Path) -> Path:
    rows = [
        (family, variant, seed, str(name), score)
        for name, arms in tables.items()
        for (family, variant), runs in arms.runs.items()
        for seed, score in runs.items()
    ]
    columns = ["family", "variant", "seed", "benchmark", "score"]
    pd.DataFrame(rows, columns=columns).sample(frac=1, random_state=0).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(("difference", "num_different"), [(0.0, None), (3.0, 1)])
@pytest.mark.ci
def test_what_is_simulated_says_what_the_report_of_its_csv_says(
    tmp_path: Path, difference: float, num_different: int | None
):
    rng = np.random.default_rng(8)
    tables = Scenario(truth=truth((3, 2), difference, num_different), runs=4).draw(rng)
    whole = analyse(read_source(as_csv(tables, tmp_path / "scores.csv")))
    found, claims = findings_of(tables, only_claims=False), findings_of(tables)
    assert answer(whole) == answer(found) == answer(claims)
    assert explored(whole) == explored(found)
    assert [c.verdict for c in whole.comparisons] == [c.verdict for c in found.comparisons]
    assert [c.p_holm for c in whole.claims] == pytest.approx([c.p_holm for c in claims.claims])
    assert [c.interval for c in whole.claims] == [pytest.approx(c.interval) for c in claims.claims]
    assert ("is better" in answer(whole)[0]) == (difference > 0)


def claims_a_difference(tables: Mapping[Benchmark, ArmTable]) -> bool:
    """Welch's test averaged over families and Bonferroni's bound, which Holm's smallest p meets, by hand."""
    p_values = []
    for arms in tables.values():
        for variant in set(arms.variants()) - {BASELINE}:
            cells = [arms.runs[f, v].to_numpy() for f in arms.families for v in (variant, BASELINE)]
            parts = np.array([stats.sem(cell) ** 2 for cell in cells]) / FAMILIES**2
            df = parts.sum() ** 2 / (parts**2 / (len(cells[0]) - 1)).sum()
            average = sum(np.mean(a) - np.mean(b) for a, b in zip(cells[::2], cells[1::2], strict=True))
            p_values.append(2 * stats.t.sf(abs(average / FAMILIES) / np.sqrt(parts.sum()), df))
    return min(p_values) * len(p_values) < 0.05


@pytest.mark.parametrize("difference", [0.0, 3.0])
def test_a_difference_is_said_exactly_where_plain_numpy_finds_one(difference: float):
    rng = np.random.default_rng(9)
    scenario = Scenario(truth=truth((2, 3), difference, 1), runs=4)
    studies = [scenario.draw(rng) for _ in range(40)]
    said = [measure_claims(scenario, findings_of(tables))["says a difference"] for tables in studies]
    assert said == [claims_a_difference(tables) for tables in studies]
    assert (np.mean(said) > 0.5) == (difference > 0)
