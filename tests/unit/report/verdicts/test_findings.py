"""Claims of simulated studies: those of the whole report, and how often they are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.claims import MEASURES, ClaimsArgs, Entry, Kind, entries, simulated
from benchmarks.simulated import (
    BASELINE_WIDE,
    NOISES,
    OTHERS_WIDE,
    Scenario,
    findings_of,
    judged,
    judged_by_holm,
    may_claim,
)
from report.page import answer
from report.significance.arms import ArmTable
from report.significance.axes import Benchmark
from report.significance.comparison import Inference
from tests.cases import diagonal_is_fast
from tests.unit.report.studies import analysed


def truth(variants: int, metrics: int, difference: float) -> np.ndarray:
    """(2, V, O) the first variant differs."""
    found = np.zeros((2, variants, metrics))
    found[:, 0] = difference
    return found


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


@pytest.mark.parametrize(("difference", "runs"), diagonal_is_fast([0.0, 6.0], [(4, 4), (3, 5)]))
@pytest.mark.ci
def test_what_is_simulated_says_what_the_report_of_its_csv_says(tmp_path, difference, runs):
    rng = np.random.default_rng(8)
    tables = Scenario(truth=truth(3, 2, difference), runs=runs).draw(rng)
    whole = analysed(as_csv(tables, tmp_path / "scores.csv"))
    found = findings_of(tables)
    assert answer(whole) == answer(found)
    assert [c.verdict for c in whole.comparisons] == [c.verdict for c in found.comparisons]
    assert [c.p_corrected for c in whole.claims] == pytest.approx([c.p_corrected for c in found.claims])
    assert [c.interval for c in whole.claims] == [pytest.approx(c.interval) for c in found.claims]
    assert ("is better" in answer(whole)[0]) == (difference > 0)


@pytest.mark.parametrize("name", NOISES)
def test_noises_spread_as_they_say(name: str):
    """Mean 0, variance 1 or 9, and outcomes that correlate."""
    scores = NOISES[name].draw(np.random.default_rng(3), (1, 3, 40_000, 2))[0]
    assert np.abs(np.median(scores.mean(1))) < 0.05
    widths = {BASELINE_WIDE: [3, 1, 1], "one variant thrice": [1, 1, 3]}.get(name, [1, 3, 3])
    if "thrice" not in name:
        widths = [1, 1, 1]
    if "unlike" not in name:
        assert np.median(scores.std(1), axis=1) == pytest.approx(widths, rel=0.06)
    if "collapsed" not in name:
        expected = 0.9 if "0.9" in name else 0.5
        assert [np.corrcoef(arm.T)[0, 1] for arm in scores] == pytest.approx([expected] * 3, abs=0.08)


def test_judgements_know_the_truth():
    """A difference of 60 spreads is found; it is no false claim, and without it in the truth it is one."""
    real = Scenario(truth=truth(1, 2, 60.0), runs=(5, 5), margin=90.0)
    null = Scenario(truth=truth(1, 2, 0.0), runs=(5, 5))
    tables = real.draw(np.random.default_rng(1))
    found = findings_of(tables)
    assert judged(real, found)["found"] == 1
    assert not judged(real, found)["false"]
    assert judged(null, found)["false"]
    assert judged(null, found)["missed by an interval"]
    assert not judged(real, found)["refused"]
    assert set(judged(real, found)) == set(MEASURES)
    assert judged_by_holm(real, tables) == {"false": False, "found": 1.0}


@pytest.mark.parametrize("runs", [(3, 3), (3, 10)])
def test_what_is_not_corrected_would_claim_nothing(runs: tuple[int, int]):
    rng, how = np.random.default_rng(4), Inference(num_draws=99, most_draws=99)
    scenario = Scenario(truth=truth(2, 2, 0.0), runs=runs)
    studies = [scenario.draw(rng) for _ in range(30)]
    spared = [tables for tables in studies if not may_claim(tables, how)]
    assert 5 < len(spared) < 30
    assert not any(judged(scenario, findings_of(tables, how))["false"] for tables in spared)


NULL: Kind = "nothing differs"
CLEARLY_BROKEN = 100 * stats.binom.ppf(0.9999, 300, 0.05) / 300
"""In percent of 300 studies: more than one in 10,000 tables of a rule that holds its level has."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "runs", "noise"),
    [
        ((9, 2), (5, 5), OTHERS_WIDE),
        ((9, 2), (3, 10), "skewed (gamma, shape 2)"),
        ((40, 1), (3, 3), BASELINE_WIDE),
    ],
)
def test_any_false_claim_is_rare(shape: tuple[int, int], runs: tuple[int, int], noise: str):
    entry = Entry(shape, runs, noise, NULL)
    assert entry in entries()
    rates = simulated(entry, ClaimsArgs(studies=300))
    assert float(str(rates["false"])) <= CLEARLY_BROKEN
