"""What the runs of all arms say together: decimals worth showing, and which arms are above chance."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.significance.arms import ArmTable
from report.significance.axes import Benchmark
from report.significance.comparison import Inference, compare_arms
from report.significance.factor import Contrast
from report.statistics.tuning_curves import Selection
from scores.metrics import Metric

SPREAD = np.array([-1.0, 0.0, 1.0])


def arms_of(metric: Metric, **runs: np.ndarray) -> ArmTable:
    return ArmTable(
        {("f", name): pd.Series(scores) for name, scores in runs.items()}, Benchmark("x"), None, metric
    )


def test_one_collapsed_arm_takes_no_decimals_from_the_others():
    loss = Metric(name="loss", better="lower", unit="nats")
    arms = {"gelu": 3 + 0.004 * SPREAD, "swiglu": 2.97 + 0.004 * SPREAD}
    assert arms_of(loss, **arms).digits(["f"]) == 4
    assert arms_of(loss, **arms, kan=5 + 3 * SPREAD).digits(["f"]) == 4
    assert arms_of(loss, gelu=arms["gelu"], kan=5 + 3 * SPREAD).digits(["f"]) == 4


def test_one_arm_that_is_spread_widely_does_not_hide_one_above_chance():
    accuracy = Metric(name="accuracy", chance=50.0, margin=1.0)
    calm, learnt, wild = 50 + 0.5 * SPREAD, 56 + 0.5 * SPREAD, 50 + 15 * SPREAD
    assert stats.ttest_1samp(learnt, 51, alternative="greater").pvalue < 0.05 / 2 / 3
    found = arms_of(accuracy, gelu=calm, swiglu=learnt, kan=wild).above_chance
    assert found == {("f", "swiglu")}


def test_a_single_run_and_runs_that_happen_to_agree_are_not_above_chance_by_themselves():
    accuracy = Metric(name="accuracy", chance=50.0, margin=1.0)
    arms = {"gelu": 50 + 3 * SPREAD, "single": np.array([52.0]), "agreeing": np.array([52.0, 52.0])}
    assert not arms_of(accuracy, **arms).above_chance


def test_losses_of_families_with_different_objectives_have_no_average():
    runs = {(f, v): pd.Series([3.0, 3.1]) for f in ("roberta", "gpt_neo") for v in ("gelu", "kan")}
    loss = Metric(name="loss", better="lower", unit="nats", is_relative=True)
    assert ArmTable(runs, Benchmark("x"), metric=loss).scopes() == ["gpt_neo", "roberta"]
    assert ArmTable(runs, Benchmark("x"), metric=loss).scopes(["roberta", "gpt_neo"])[0] == "roberta"
    accuracy = Metric(name="accuracy", better="higher", unit="percent")
    assert ArmTable(runs, Benchmark("x"), metric=accuracy).scopes() == [None, "gpt_neo", "roberta"]
    one = {key: arm for key, arm in runs.items() if key[0] == "roberta"}
    assert ArmTable(one, Benchmark("x"), metric=accuracy).scopes() == ["roberta"]


def test_what_a_choice_adds_is_in_the_standard_error_of_the_comparison_and_its_pairs():
    rng = np.random.default_rng(0)
    keys = [(family, variant) for family in ("gpt_neo", "roberta") for variant in ("gelu", "kan")]
    runs = {key: pd.Series(3 + 0.01 * rng.standard_normal(5)) for key in keys}
    choices = {key: Selection(1e-6 * place, 9.0) for place, key in enumerate(keys, start=1)}
    loss = Metric(name="loss", better="lower", unit="nats", margin=0.02)
    plain, tuned = (ArmTable(runs, Benchmark("x"), metric=loss, choices=own) for own in (None, choices))
    for paired in (False, True):
        how = Inference(paired=paired)
        without, found = (compare_arms(t, Contrast(("kan",), ("gelu",)), None, how) for t in (plain, tuned))
        missed = {key: c.variance**0.5 / 2 for key, c in choices.items()}
        # One side of the difference is kan's in both families, one gelu's; of pairs it is a family's own.
        sides = [sum(x for (_, v), x in missed.items() if v == own) for own in ("gelu", "kan")]
        pairs = sum(np.hypot(missed[f, "gelu"], missed[f, "kan"]) for f in ("gpt_neo", "roberta"))
        added = pairs**2 if paired else np.hypot(*sides) ** 2
        assert found.choice_error == pytest.approx(np.sqrt(added))
        assert found.standard_error == pytest.approx(np.sqrt(without.standard_error**2 + added))
        assert found.estimate == without.estimate
        (one, base) = (compare_arms(t, Contrast(("kan",), ("gelu",)), "roberta", how) for t in (tuned, plain))
        assert one.standard_error == pytest.approx(np.sqrt(base.standard_error**2 + 7e-6))
        assert one.df > base.df or paired
