"""What the runs of all arms say together: decimals worth showing, and which arms are above chance."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from eval.results.outcome import Outcome
from eval.significance.arms import ArmTable
from eval.significance.axes import Benchmark

SPREAD = np.array([-1.0, 0.0, 1.0])


def arms_of(outcome: Outcome, **runs: np.ndarray) -> ArmTable:
    return ArmTable(
        {("f", name): pd.Series(scores) for name, scores in runs.items()}, Benchmark("x"), None, outcome
    )


def test_one_collapsed_arm_takes_no_decimals_from_the_others():
    loss = Outcome(name="loss", better="lower", unit="nats")
    arms = {"gelu": 3 + 0.004 * SPREAD, "swiglu": 2.97 + 0.004 * SPREAD}
    assert arms_of(loss, **arms).digits(["f"]) == 4
    assert arms_of(loss, **arms, kan=5 + 3 * SPREAD).digits(["f"]) == 4
    assert arms_of(loss, gelu=arms["gelu"], kan=5 + 3 * SPREAD).digits(["f"]) == 4


def test_one_arm_that_is_spread_widely_does_not_hide_one_above_chance():
    accuracy = Outcome(name="accuracy", chance=50.0, margin=1.0)
    calm, learnt, wild = 50 + 0.5 * SPREAD, 56 + 0.5 * SPREAD, 50 + 15 * SPREAD
    assert stats.ttest_1samp(learnt, 51, alternative="greater").pvalue < 0.05 / 2 / 3
    found = arms_of(accuracy, gelu=calm, swiglu=learnt, kan=wild).above_chance
    assert found == {("f", "swiglu")}


def test_a_single_run_and_runs_that_happen_to_agree_are_not_above_chance_by_themselves():
    accuracy = Outcome(name="accuracy", chance=50.0, margin=1.0)
    arms = {"gelu": 50 + 3 * SPREAD, "single": np.array([52.0]), "agreeing": np.array([52.0, 52.0])}
    assert not arms_of(accuracy, **arms).above_chance
