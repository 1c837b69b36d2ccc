"""A benchmark that is guessed is not called equivalent by degrees either."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from report.significance.arms import ArmTable
from report.significance.axes import Benchmark
from report.significance.claims import guessed, with_siblings_at_chance
from report.significance.compare import compare_with_baseline
from report.significance.comparison import AT_CHANCE, DIFFERENT, EQUIVALENT, Comparison, Inference
from scores.outcome import Outcome


def compared(benchmark: Benchmark, means: dict[str, float], sd: float, outcome: Outcome) -> list[Comparison]:
    spread = sd * np.array([-1.2, -0.5, 0.1, 0.4, 1.2])
    scores = pd.DataFrame(
        [("f", v, seed, mean + x) for v, mean in means.items() for seed, x in enumerate(spread)],
        columns=["family", "variant", "seed", "score"],
    )
    arms = ArmTable.of_scores(scores, benchmark, outcome=outcome)
    return compare_with_baseline(arms, "gelu", ["kan"], Inference())


@pytest.mark.parametrize(
    ("accuracy", "log_odds", "verdict"),
    [(50.0, 1.0, AT_CHANCE), (50.0, 2.0, DIFFERENT), (70.0, 1.0, EQUIVALENT)],
)
def test_degrees_of_what_is_guessed(accuracy: float, log_odds: float, verdict: str):
    pairs, degrees = Benchmark("pairs"), Benchmark("pairs", metric="log_odds")
    share = Outcome(name="pairs", chance=50.0, margin=1.0)
    graded = Outcome(name="pairs log odds", unit="nats", chance=0.0, margin=0.1)
    found = [
        *compared(pairs, {"gelu": accuracy, "kan": accuracy}, 0.2, share),
        *compared(degrees, {"gelu": 1.0, "kan": log_odds}, 0.02, graded),
    ]
    assert found[1].verdict == (DIFFERENT if log_odds > 1 else EQUIVALENT)
    named = with_siblings_at_chance(dict(enumerate(found)), guessed(found))
    assert named[1].verdict == verdict
    assert named[0] == found[0]
