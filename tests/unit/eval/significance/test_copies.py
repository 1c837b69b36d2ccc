"""Copied runs are found where chance cannot make them, and runs that are equal by chance are kept."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from eval.results.run_scores import normalise_rows
from eval.significance.copies import find_coincidences
from eval.significance.data_checks import clean_rows
from eval.significance.statistics.coincidences import count_pairs, score_steps
from tests.unit.eval.significance.comparing import compare


def draw_arms(
    rng: np.random.Generator, runs: int, arms: int, sd: float, decimals: int, copies: int = 0, tasks: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Scores (R, K) of runs and the arm of each; the last ``copies`` of an arm repeat its first."""
    of_run = np.arange(runs) % arms
    shared, own = rng.normal(size=(runs, 1)), rng.normal(size=(runs, tasks))
    spread = shared if tasks == 1 else 0.8 * shared + 0.6 * own
    scores = (60 + rng.normal(0, sd, size=(arms, 1))[of_run] + sd * spread).round(decimals)
    for arm in range(arms):
        members = np.flatnonzero(of_run == arm)
        scores[members[len(members) - copies :]] = scores[members[:copies]]
    return scores, of_run


def is_found(scores: np.ndarray, arms: np.ndarray) -> tuple[bool, bool]:
    """Whether copies are found within arms, and across them."""
    same = np.unique(scores, axis=0, return_inverse=True)[1].reshape(-1)
    counts = count_pairs(same, arms, scores, score_steps(scores, arms, [True] * scores.shape[1]))
    return counts[0].is_impossible, counts[1].is_impossible


def rows_of(scores: np.ndarray, arms: np.ndarray, metric: str = "accuracy") -> pd.DataFrame:
    table = [
        ("f", "ab"[arm], seed, "blimp", f"task-{task}", metric, score)
        for seed, (arm, of_run) in enumerate(zip(arms, scores, strict=True))
        for task, score in enumerate(of_run)
    ]
    names = ["family", "variant", "seed", "benchmark", "task", "metric", "score"]
    return normalise_rows(pd.DataFrame(table, columns=names))


def false_alarms(cells: list[tuple[int, int]], tasks: int, studies: int) -> dict[tuple, float]:
    """Share of honest studies in which a copy is found, by (runs, arms, decimals)."""
    rng = np.random.default_rng(5)
    return {
        (runs, arms, decimals): float(
            np.mean(
                [
                    any(is_found(*draw_arms(rng, runs, arms, 0.5, decimals, tasks=tasks)))
                    for _ in range(studies)
                ]
            )
        )
        for runs, arms in cells
        for decimals in (1, 2, 4)
    }


def misses(cells: list[tuple[int, int, int]], sds: tuple[float, ...], studies: int) -> dict[tuple, float]:
    """Share of studies with copies that chance cannot make in which none is found.

    Chance cannot where the tail of a Poisson distribution says so of five times the pairs that it makes.
    """
    rng, missed = np.random.default_rng(6), {}
    for runs, arms, copies in cells:
        for decimals in (1, 2, 4):
            for sd in sds:
                by_chance = arms * (runs / arms) ** 2 / 2 * 10.0**-decimals / (2 * np.sqrt(np.pi) * sd)
                if stats.poisson.sf(arms * copies - 1, 5 * by_chance) < 1e-4:
                    found = [
                        is_found(*draw_arms(rng, runs, arms, sd, decimals, copies))[0] for _ in range(studies)
                    ]
                    missed[runs, arms, copies, decimals, sd] = 1 - float(np.mean(found))
    return missed


def test_honest_runs_are_seldom_taken_for_copies():
    found = false_alarms([(12, 2), (54, 9)], tasks=1, studies=60)
    assert max(found.values()) <= 1 / 60  # of a share below 1%, two of sixty are rare


def test_copies_that_chance_cannot_make_are_found():
    missed = misses([(12, 1, 6), (60, 2, 12)], (0.5, 2.0), studies=10)
    assert len(missed) >= 5
    assert max(missed.values()) <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [1, 8])
def test_false_alarms_are_below_one_in_a_hundred(tasks: int):
    few = false_alarms([(12, 1), (12, 2), (54, 9)], tasks, studies=1_000)
    many = false_alarms([(400, 2), (400, 20)], tasks, studies=100)
    print(few, many)
    assert max(few.values()) < 0.01
    assert max(many.values()) <= 0.01


@pytest.mark.slow
def test_impossible_copies_are_always_found():
    cells = [(12, 2, 3), (12, 1, 6), (24, 2, 6), (54, 9, 1), (60, 2, 12), (400, 2, 100), (400, 20, 2)]
    missed = misses(cells, (0.5, 1.0, 2.0), studies=100)
    print(missed)
    assert len(missed) >= 25
    assert max(missed.values()) <= 0.02


def test_twelve_copied_runs_of_two_decimals_do_not_make_a_difference():
    """No single pair of them is impossible: together they are."""
    rng = np.random.default_rng(3)
    scores, arms = draw_arms(rng, 12, 2, 0.9, 2)
    honest = rows_of(scores + np.where(arms == 0, 0.35, 0)[:, None].round(2), arms)
    copied = honest.assign(seed=honest.seed + 100, run_id=honest.run_id + "-b")
    together = normalise_rows(pd.concat([honest, copied]))
    cleaned, (note,) = clean_rows(together)
    assert cleaned[["variant", "seed", "score"]].equals(honest[["variant", "seed", "score"]])
    assert note.startswith(
        "the same scores throughout, of one arm counted as one run (12 pairs where chance makes "
    )
    assert "was it copied?: f a seed 0 and f a seed 100; f a seed 2 and f a seed 102; " in note
    a, b = (honest.score[honest.variant == name] for name in "ab")
    expected = stats.ttest_ind(a, b, equal_var=False).pvalue
    assert compare(together, "a - b").p == pytest.approx(expected, abs=1e-12)


def test_one_pair_among_thousands_is_chance():
    """Of 200 seeds with four decimals, a pair is the same by chance; all of them stay."""
    scores = np.random.default_rng(0).normal(60, 0.5, size=(200, 1)).round(4)
    scores[1] = scores[0]
    rows = rows_of(scores, np.zeros(200, int))
    cleaned, notes = clean_rows(rows)
    assert len(cleaned) == 200
    assert notes == []


def test_shares_of_few_items_are_the_same_by_chance_however_many_decimals_they_have():
    """Of 277 items there are few scores: k / 277."""
    rng = np.random.default_rng(2)
    scores = 100 * rng.integers(140, 152, size=(16, 1)) / 277
    found = find_coincidences(rows_of(scores, np.zeros(16, int)))
    assert found.within.found > 3
    assert not found.within.is_impossible


def test_tasks_that_move_together_are_evidence_once():
    """Ten tasks that differ by a constant tell no more than one of them."""
    rng = np.random.default_rng(4)
    one = rng.normal(60, 0.5, size=(20, 1)).round(2)
    one[1] = one[0]
    arms = np.zeros(20, int)
    alone = find_coincidences(rows_of(one, arms)).within
    ten = find_coincidences(rows_of((one + np.arange(10)).round(2), arms)).within
    assert ten.expected == pytest.approx(alone.expected, rel=0.02)
    apart = np.concatenate([one, np.r_[[[60.0]] * 2, rng.normal(60, 0.5, size=(18, 1)).round(2)]], axis=1)
    assert find_coincidences(rows_of(apart, arms)).within.expected < alone.expected / 20


def test_expected_coincidences_are_those_of_simulated_studies():
    rng = np.random.default_rng(8)
    found, expected = [], []
    for _ in range(100):
        scores, arms = draw_arms(rng, 40, 1, 0.5, 2)
        same = np.unique(scores, axis=0, return_inverse=True)[1].reshape(-1)
        count, _ = count_pairs(same, arms, scores, score_steps(scores, arms, [True]))
        found.append(count.found)
        expected.append(count.expected)
    assert np.mean(expected) == pytest.approx(np.mean(found), rel=0.1)


def test_models_that_answer_nothing_are_no_copies():
    """A correlation of zero is what every constant answer gets."""
    scores = np.r_[[[0.0]] * 4, np.random.default_rng(1).normal(30, 3, size=(4, 1))]
    cleaned, notes = clean_rows(rows_of(scores, np.repeat([0, 1], 4), "matthews_correlation"))
    assert len(cleaned) == 8
    assert notes == []
