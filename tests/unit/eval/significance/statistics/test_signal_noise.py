"""Signal, noise and decisions against the published formulas written out, and by simulation."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from statistics import mean, variance

import numpy as np
import pandas as pd
import pytest

from eval.significance.statistics.signal_noise import (
    DecisionAccuracy,
    decision_accuracy,
    expected_range,
    signal_noise,
)


def published_ratio(runs: dict[str, list[float]]) -> float:
    """Relative dispersion over relative standard deviation, both divided by the mean score."""
    means = {name: mean(scores) for name, scores in runs.items()}
    centre = mean(means.values())
    dispersion = max(abs(a - b) for a in means.values() for b in means.values()) / centre
    return dispersion / (mean(variance(scores) for scores in runs.values()) ** 0.5 / centre)


def decided_alike(runs: dict[str, dict[int, float]]) -> DecisionAccuracy:
    """Pair by pair and seed by seed, in words."""
    found = []
    for a, b in combinations(runs, 2):
        for seed in set(runs[a]) & set(runs[b]):
            others = [[score for s, score in runs[name].items() if s != seed] for name in (a, b)]
            if not all(others):
                continue
            small, target = runs[a][seed] - runs[b][seed], mean(others[0]) - mean(others[1])
            is_tie = abs(small) < 1e-12 or abs(target) < 1e-12
            found.append(0.5 if is_tie else float((small > 0) == (target > 0)))
    return DecisionAccuracy(pytest.approx(mean(found)), len(found))


def share_right(scores: np.ndarray) -> float:
    """The share alone."""
    found = decision_accuracy(scores)
    assert found is not None
    return found.share


@pytest.mark.parametrize("benchmark", ["blimp", "glue"])
@pytest.mark.parametrize("family", ["roberta", "gpt_neo"])
def test_published_scores_give_what_the_published_formulas_say(
    benchmark: str, family: str, shared_data: Path
):
    table = pd.read_csv(shared_data / "thesis" / "all_seeds.csv", keep_default_na=False)
    table = table[(table.benchmark == benchmark) & (table.family == family)]
    wide = table.pivot(index="variant", columns="seed", values="score")
    runs = {str(name): row.dropna() for name, row in wide.iterrows()}
    found = signal_noise([[row.to_numpy() for row in runs.values()]])
    assert found is not None
    assert found.ratio == pytest.approx(published_ratio({k: list(v) for k, v in runs.items()}))
    assert found.signal == pytest.approx(wide.mean(axis=1).max() - wide.mean(axis=1).min())
    by_seed = {name: {int(s): float(x) for s, x in row.items()} for name, row in runs.items()}
    assert decision_accuracy(wide.to_numpy()) == decided_alike(by_seed)


def test_families_weigh_alike_and_their_noise_averages_out():
    rng = np.random.default_rng(0)
    first, second = rng.normal(0, 1, (4, 6)), rng.normal(0, 3, (4, 6))
    found = signal_noise([list(first), list(second)])
    assert found is not None
    means = pd.DataFrame({"a": first.mean(1), "b": second.mean(1)}).mean(axis=1)
    assert found.signal == pytest.approx(means.max() - means.min())
    pooled = [pd.DataFrame(x).var(axis=1).mean() for x in (first, second)]
    assert found.noise == pytest.approx(np.sqrt((pooled[0] + pooled[1]) / 4))


@pytest.mark.parametrize("shift", [-50.0, 0.0])
def test_a_mean_at_or_below_zero_changes_nothing(shift: float):
    scores = np.random.default_rng(1).normal(0, 1, (3, 5))
    moved = scores - scores.mean() + shift
    found, expected = signal_noise([list(moved)]), signal_noise([list(scores + 100)])
    assert found is not None
    assert expected is not None
    assert found.ratio == pytest.approx(expected.ratio)
    assert decision_accuracy(moved) == decision_accuracy(scores + 100)


@pytest.mark.parametrize("num_variants", [2, 5, 9])
def test_the_range_of_equals(num_variants: int):
    draws = np.random.default_rng(2).standard_normal((200_000, num_variants))
    assert expected_range(num_variants) == pytest.approx(np.ptp(draws, axis=1).mean(), abs=0.01)


def test_equal_variants_have_the_ratio_of_equals():
    rng = np.random.default_rng(3)
    found = [
        signal_noise([[rng.normal(0, 2, n) for n in (6, 6, 8, 8)] for _ in range(2)]) for _ in range(3000)
    ]
    ratios = [x.ratio for x in found if x]
    assert np.mean(ratios) == pytest.approx(np.mean([x.ratio_of_equals for x in found if x]), rel=0.04)


def test_equal_variants_are_guessed_and_far_ones_decided():
    rng = np.random.default_rng(4)
    guessed = [share_right(rng.standard_normal((5, 4))) for _ in range(3000)]
    assert np.mean(guessed) == pytest.approx(0.5, abs=0.01)
    assert share_right(rng.standard_normal((4, 5)) + 100 * np.arange(4)[:, None]) == 1.0


def test_the_tested_seed_does_not_judge_itself():
    # One seed far out: in a mean over all three it would win, and agree with itself.
    assert share_right(np.array([[9.0, 0.0, 0.0], [0.0, 1.0, 1.0]])) == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([[1.0, 1.0], [1.0, 1.0]], 0.5),  # ties throughout
        ([[1.0, 1.0], [1.0, 2.0]], 0.5),  # a tie on one side of each decision
        ([[0.1 + 0.2, 1.0], [0.3, 1.0]], 0.5),  # equal but for rounding
    ],
)
def test_ties_count_half(scores: list[list[float]], expected: float):
    assert share_right(np.array(scores)) == expected


def test_missing_runs_take_part_in_no_decision():
    nan = np.nan
    scores = np.array([[5.0, 5.5, nan], [4.0, nan, 4.5], [nan, nan, 3.0]])
    runs = {str(v): {s: x for s, x in enumerate(row) if not np.isnan(x)} for v, row in enumerate(scores)}
    assert decision_accuracy(scores) == decided_alike(runs)


def test_what_cannot_be_told():
    one, two = np.array([1.0]), np.array([1.0, 2.0])
    assert signal_noise([[two]]) is None
    assert signal_noise([[one, one]]) is None
    assert signal_noise([[two, two], [one, one]]) is None
    assert signal_noise([[np.ones(3), np.ones(3)]]) is None
    assert signal_noise([[two, one]]) is not None
    assert decision_accuracy(np.array([[1.0], [2.0]])) is None
    assert decision_accuracy(np.array([[1.0, 2.0]])) is None
