"""Copied runs are found in many digits, and runs that are equal in few are kept."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from report.significance.data_checks import clean_rows, find_equal_runs
from scores.run_scores import normalise_rows
from tests.unit.report.significance.comparing import compare

NAMES = ["family", "variant", "seed", "benchmark", "task", "metric", "score"]


def draw(
    rng: np.random.Generator,
    runs: int,
    arms: int,
    tasks: int,
    step: float,
    *,
    copies: int = 0,
    rho: float = 0.64,
) -> pd.DataFrame:
    """Rows of runs whose tasks correlate by rho and are rounded; the last runs of an arm repeat its first."""
    arm = np.arange(runs) % arms
    spread = np.sqrt(rho) * rng.normal(size=(runs, 1)) + np.sqrt(1 - rho) * rng.normal(size=(runs, tasks))
    scores = 60 + rng.normal(0, 3, size=(arms, tasks))[arm] + 0.5 * spread
    scores = (scores / step).round() * step
    for each in range(arms):
        members = np.flatnonzero(arm == each)
        scores[members[len(members) - copies :]] = scores[members[:copies]]
    return rows_of(scores, arm)


def rows_of(scores: np.ndarray, arms: np.ndarray, metric: str = "accuracy") -> pd.DataFrame:
    table = [
        ("f", "abcdefghi"[arm], seed, "blimp", f"task-{task}", metric, score)
        for seed, (arm, of_run) in enumerate(zip(arms, scores, strict=True))
        for task, score in enumerate(of_run)
    ]
    return normalise_rows(pd.DataFrame(table, columns=NAMES))


def num_accused(rows: pd.DataFrame) -> int:
    """Groups of runs that are said to be copies."""
    return sum(find_equal_runs(rows).values())


@pytest.mark.parametrize(
    ("runs", "arms", "copies"), [(6, 2, 1), (12, 2, 1), (12, 1, 6), (54, 9, 1), (60, 2, 12)]
)
def test_copies_are_found_in_many_scores(runs: int, arms: int, copies: int):
    rng = np.random.default_rng(6)
    for step in (0.1, 0.01):
        assert num_accused(draw(rng, runs, arms, 20, step, copies=copies)) == copies * arms


def test_twelve_copied_runs_do_not_make_a_difference():
    rng = np.random.default_rng(3)
    honest = draw(rng, 12, 2, 20, 0.01)
    copied = honest.assign(seed=honest.seed + 100, run_id=honest.run_id + "-b")
    together = normalise_rows(pd.concat([honest, copied]))
    cleaned, (note,) = clean_rows(together)
    assert cleaned[["variant", "seed", "score"]].equals(honest[["variant", "seed", "score"]])
    assert note.startswith("the same scores throughout, of one arm counted as one run; was it copied?: ")
    assert "f a seed 0 and f a seed 100; f a seed 2 and f a seed 102; " in note
    a, b = (honest[honest.variant == name].groupby("seed").score.mean() for name in "ab")
    expected = stats.ttest_ind(a, b, equal_var=False).pvalue
    assert compare(together, "a - b").p == pytest.approx(expected, abs=1e-12)


def test_a_single_score_is_no_evidence():
    """Of twelve runs with two decimals a pair is often the same by chance; all of them stay."""
    scores = np.random.default_rng(0).normal(60, 0.5, size=(12, 1)).round(2)
    scores[1] = scores[0]
    cleaned, notes = clean_rows(rows_of(scores, np.zeros(12, int)))
    assert len(cleaned) == 12
    assert notes == []


def test_a_loss_of_many_digits_is():
    scores = np.random.default_rng(0).normal(3, 0.02, size=(6, 1)).round(8)
    scores[1] = scores[0]
    cleaned, (note,) = clean_rows(rows_of(scores, np.zeros(6, int), "perplexity"))
    assert cleaned.seed.tolist() == [0, 2, 3, 4, 5]
    assert "was it copied?: f a seed 0 and f a seed 1" in note


@pytest.mark.parametrize("items", [56, 277])
def test_shares_of_few_items_are_the_same_by_chance_however_many_decimals_they_have(items: int):
    scores = 100 * np.random.default_rng(2).integers(items // 2, items // 2 + 12, size=(16, 2)) / items
    scores[1] = scores[0]
    assert num_accused(rows_of(scores, np.zeros(16, int))) == 0


@pytest.mark.parametrize("tasks", [2, 5])
def test_runs_that_are_equal_in_few_shares_are_kept(tasks: int):
    table = draw(np.random.default_rng(5), 12, 2, tasks, 0.01, copies=1)
    cleaned, (note,) = clean_rows(table)
    assert len(cleaned) == len(table)
    assert note.startswith("different runs with the same scores, which may be chance, kept: ")


def test_equal_runs_of_two_models_are_named_and_kept():
    scores = np.random.default_rng(2).normal(60, 3, size=(12, 12)).round(2)
    scores[1] = scores[0]
    cleaned, (note,) = clean_rows(rows_of(scores, np.arange(12) % 2))
    assert cleaned.seed.nunique() == 12
    assert note == (
        "runs of different models with the same scores, kept; was one copied?: f a seed 0 and f b seed 1"
    )


def test_models_that_answer_nothing_are_no_copies():
    """A correlation of zero is what every constant answer gets."""
    scores = np.r_[np.zeros((4, 8)), np.random.default_rng(1).normal(30, 3, size=(8, 8))]
    cleaned, notes = clean_rows(rows_of(scores, np.repeat([0, 1], [4, 8]), "matthews_correlation"))
    assert cleaned.seed.nunique() == 12
    assert notes == []
