"""Claims of simulated studies: those of the whole report, and how often they are wrong."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.claims import MEASURES, ClaimsArgs, Entry, Kind, entries, simulated
from benchmarks.simulated import BASELINE_WIDE, OTHERS_WIDE, Scenario, findings_of, judged, judged_by_holm
from report.page import answer
from report.significance.arms import ArmTable
from report.significance.axes import Benchmark
from tests.cases import diagonal_is_fast
from tests.unit.report.studies import analysed


def truth(variants: int, metrics: int, difference: float) -> np.ndarray:
    """(2, V, O) the first variant differs."""
    found = np.zeros((2, variants, metrics))
    found[:, 0] = difference
    return found


def as_csv(tables: Mapping[Benchmark, ArmTable], path: Path) -> Path:
    of_arms = [(key, str(name), runs) for name, arms in tables.items() for key, runs in arms.runs.items()]
    rows = [(*key, seed, name, score) for key, name, runs in of_arms for seed, score in runs.items()]
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
    direction = r", taken as higher is better \(else say --lower-is-better outcome\d+\)"
    assert [re.sub(direction, "", line) for line in answer(whole)] == list(answer(found))
    assert [c.verdict for c in whole.comparisons] == [c.verdict for c in found.comparisons]
    assert [c.p_corrected for c in whole.claims] == pytest.approx([c.p_corrected for c in found.claims])
    assert [c.interval for c in whole.claims] == [pytest.approx(c.interval) for c in found.claims]
    assert ("is better" in answer(found)[0]) == (difference > 0)


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


NULL: Kind = "nothing differs"
SKEWED = "skewed (gamma, shape 2)"
CLEARLY_BROKEN = 100 * stats.binom.ppf(0.9999, 300, 0.05) / 300
"""In percent of 300 studies: more than one in 10,000 tables of a rule that holds its level has."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "runs", "noise"),
    [((9, 2), (5, 5), OTHERS_WIDE), ((9, 2), (3, 10), SKEWED), ((40, 1), (3, 3), BASELINE_WIDE)],
)
def test_any_false_claim_is_rare(shape: tuple[int, int], runs: tuple[int, int], noise: str):
    entry = Entry(shape, runs, noise, NULL)
    assert entry in entries()
    rates = simulated(entry, ClaimsArgs(studies=300))
    assert float(str(rates["false"])) <= CLEARLY_BROKEN
