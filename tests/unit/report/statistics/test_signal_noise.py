"""Signal and noise against the published formulas written out, and by simulation."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, variance

import numpy as np
import pandas as pd
import pytest

from report.statistics.power import expected_range, signal_noise


def published_ratio(runs: dict[str, list[float]]) -> float:
    """Relative dispersion over relative standard deviation, both divided by the mean score."""
    means = {name: mean(scores) for name, scores in runs.items()}
    centre = mean(means.values())
    dispersion = max(abs(a - b) for a in means.values() for b in means.values()) / centre
    return dispersion / (mean(variance(scores) for scores in runs.values()) ** 0.5 / centre)


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


def test_what_cannot_be_told():
    one, two = np.array([1.0]), np.array([1.0, 2.0])
    assert signal_noise([[two]]) is None
    assert signal_noise([[one, one]]) is None
    assert signal_noise([[two, two], [one, one]]) is None
    assert signal_noise([[np.ones(3), np.ones(3)]]) is None
    assert signal_noise([[two, one]]) is not None
