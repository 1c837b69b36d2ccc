"""Ages of acquisition: planted curves have theirs by hand, noisy ones by another least-squares routine."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import least_squares

from eval.zero_shot.acquisition import age_of_child, age_of_model
from eval.zero_shot.aoa import LEADERBOARD_CHANCE, Word, correlations

AGES = np.arange(16, 31)
STEPS = np.array([1e6, 2e6, 3e6, 5e6, 8e6, 1e7, 2e7, 4e7, 7e7, 1e8])


def curve(x: np.ndarray, a: float, b: float, c: float, d: float) -> np.ndarray:
    return a / (1 + np.exp(-b * (x - c))) + d


def crossing(values: np.ndarray, height: float) -> float:
    a, b, c, d = values
    return float(c - np.log(a / (height - d) - 1) / b)


def fitted(x: np.ndarray, y: np.ndarray, start: list[float], bounds=(-np.inf, np.inf)) -> np.ndarray:
    """The same sum of squares, by a trust region and with the slopes written out."""

    def slopes(p: np.ndarray) -> np.ndarray:
        a, b, c, _ = p
        s = 1 / (1 + np.exp(-b * (x - c)))
        return np.stack([s, a * s * (1 - s) * (x - c), -a * b * s * (1 - s), np.ones_like(x)], 1)

    how = {"bounds": bounds, "xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "max_nfev": 20_000}
    return least_squares(lambda p: curve(x, *p) - y, start, jac=slopes, **how).x


@pytest.mark.parametrize("middle", [18.5, 22.0, 27.25])
def test_a_child_knows_a_word_where_half_of_children_do(middle):
    assert age_of_child(AGES, curve(AGES, 1, 0.7, middle, 0)) == pytest.approx(middle, abs=1e-6)
    shares = curve(AGES, 1, 0.7, middle, 0)
    shares[3] = np.nan
    assert age_of_child(AGES, shares) == pytest.approx(middle, abs=1e-6)


def test_a_child_s_age_of_noisy_shares_is_that_of_the_least_squares():
    draw = np.random.default_rng(0)
    for middle in (19.0, 23.5, 26.0):
        shares = np.clip(curve(AGES, 0.9, 0.5, middle, 0.03) + draw.normal(0, 0.02, len(AGES)), 0, 1)
        values = fitted(AGES, shares, [1, 0.1, 23, 0], ([0, 0, 16, -0.5], [2, 1, 30, 0.5]))
        assert age_of_child(AGES, shares) == pytest.approx(crossing(values, 0.5), abs=1e-4)


@pytest.mark.parametrize("shares", [np.full(15, 0.9), np.full(15, 0.1), np.r_[0.2, 0.4, np.full(13, np.nan)]])
def test_a_word_that_all_or_no_children_know_has_no_age(shares):
    assert age_of_child(AGES, shares) is None


def test_a_model_learns_a_word_half_way_from_chance_to_its_lowest_surprisal():
    x, chance = np.log10(STEPS + 1), 14.0
    surprisal = -curve(x, 10, 4, 6.8, -13)
    half = (chance + surprisal.min()) / 2
    expected = 6.8 - math.log(10 / (-half + 13) - 1) / 4
    assert age_of_model(STEPS, surprisal, chance) == pytest.approx(expected, abs=1e-6)
    draw = np.random.default_rng(1)
    steps, many = np.repeat(STEPS, 5), np.repeat(surprisal, 5) + draw.normal(0, 0.3, 50)
    seen = np.log10(steps + 1)
    values = fitted(seen, -many, [np.ptp(many), 1, seen.mean(), (-many).min()])
    expected = crossing(values, -(chance + many.min()) / 2)
    assert age_of_model(steps, many, chance) == pytest.approx(expected, abs=1e-4)


def test_a_word_that_is_never_learnt_or_was_known_before_has_no_place():
    x = np.log10(STEPS + 1)
    assert age_of_model(STEPS, np.linspace(3, 9, 10), 14.0) is None  # it gets worse
    assert age_of_model(STEPS, -curve(x, 4, 4, 6.8, -6), 14.0) is None  # below half way from the start
    assert age_of_model(STEPS[:2], [9.0, 3.0], 14.0) is None
    assert age_of_model(STEPS, np.full(10, np.nan), 14.0) is None


def test_the_score_is_the_correlation_of_both_ages_of_the_words_that_have_them():
    middles = np.array([6.3, 6.6, 6.9, 7.3, 7.5])
    ages = np.array([19.0, 18.0, 23.0, 22.0, 27.0])
    words = [
        Word(f"w{i}", ("the",), tuple(AGES.tolist()), tuple(curve(AGES, 1, 0.8, age, 0).tolist()))
        for i, age in enumerate(ages)
    ]
    words += [Word("unasked", ("the",)), Word("easy", ("the",), tuple(AGES.tolist()), (0.9,) * 15)]
    x = np.log10(STEPS + 1)
    learnt = {f"w{i}": -curve(x, 12, 5, middle, -17) for i, middle in enumerate(middles)}
    learnt |= {"unasked": learnt["w0"], "easy": learnt["w1"]}
    items = pd.concat(
        [
            pd.DataFrame({"word": list(learnt), "step": step, "surprisal": [v[n] for v in learnt.values()]})
            for n, step in enumerate(STEPS)
        ]
    )
    found = correlations(words, items, 9.2)

    def half(chance: float) -> list[float]:
        heights = [-(chance + learnt[f"w{i}"].min()) / 2 for i in range(5)]
        return [crossing(np.array([12, 5, m, -17]), h) for m, h in zip(middles, heights, strict=True)]

    for name, chance in (("leaderboard", LEADERBOARD_CHANCE), ("pearson", 9.2)):
        expected = 100 * np.corrcoef(half(chance), ages)[0, 1]
        assert found[f"{name}_correlation"] == pytest.approx(expected, abs=1e-4)
    assert found["words_fitted"] == 5
    few = correlations(words[:2], items, 9.2)
    assert few.pop("words_fitted") == 2
    assert few == {"pearson_correlation": 0, "leaderboard_correlation": 0}  # as the pipeline counts it
