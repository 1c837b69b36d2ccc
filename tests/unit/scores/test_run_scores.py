"""A score per run and benchmark, out of rows of tasks and metrics."""

from __future__ import annotations

import pandas as pd
import pytest

from scores.run_scores import normalise_rows, run_scores
from scores.suites import BLIMP_PARADIGMS


def test_benchmark_score_is_the_mean_over_tasks_of_the_primary_metric():
    schema = ["family", "variant", "seed", "benchmark", "task", "metric", "score"]
    scores = {("cola", "accuracy"): 70.0, ("cola", "matthews_correlation"): 10.0, ("rte", "accuracy"): 50.0,
              ("mrpc", "accuracy"): 68.0, ("mrpc", "f1"): 81.0}  # fmt: skip
    rows = pd.DataFrame([("f", "a", 1, "glue", *key, x) for key, x in scores.items()], columns=schema)
    found, notes = run_scores(normalise_rows(rows))
    assert found.score.tolist() == [pytest.approx((10 + 50 + 81) / 3)]
    assert notes == []


def test_a_run_without_all_tasks_is_left_out_and_named():
    schema = ["family", "variant", "seed", "benchmark", "task", "score"]
    rows = pd.DataFrame(
        [("f", "a", seed, "blimp", task, 50.0 + seed) for seed in (1, 2, 3) for task in ("x", "y")]
        + [("f", "a", 4, "blimp", "x", 90.0), ("f", "a", 1, "blimp", "extra", 99.0)],
        columns=schema,
    )
    found, notes = run_scores(normalise_rows(rows))
    assert found.seed.tolist() == [1, 2, 3]
    assert found.score.tolist() == [51.0, 52.0, 53.0]
    assert any("extra" in note for note in notes)
    assert any("f/a/seed4" in note and "y" in note for note in notes)


def test_tasks_under_a_head_keep_their_headline_when_several_are_averaged():
    schema = ["family", "variant", "seed", "benchmark", "task", "metric", "score", "head", "primary"]
    rows = [
        ("f", "a", seed, "own", task, metric, score, "default", score < 50)
        for seed in (1, 2)
        for task, metric, score in (
            ("x", "macro_f1", 10.0),
            ("x", "accuracy", 90.0),
            ("y", "accuracy", 30.0),
            ("y", "macro_f1", 80.0),
        )
    ]
    found, _ = run_scores(normalise_rows(pd.DataFrame(rows, columns=schema)))
    assert found.score.tolist() == [20.0, 20.0]


@pytest.mark.parametrize("kind", [int, str])
def test_seeds_of_63_bits_stay_apart(kind):
    seeds = [2**63 - 1, 2**63 - 2, 2**53, 2**53 + 1]
    table = pd.DataFrame([("f", "a", kind(seed), "blimp", 50.0) for seed in seeds])
    table.columns = ["family", "variant", "seed", "benchmark", "score"]
    assert sorted(normalise_rows(table).seed) == sorted(seeds)


@pytest.mark.parametrize("label", ["s-selection", "s_selection", "S-Selection", " s selection"])
def test_blimp_has_twelve_phenomena_whatever_its_file_calls_them(label: str):
    groups = {uid: group for group, uids in BLIMP_PARADIGMS.items() for uid in uids}
    groups |= dict.fromkeys(["animate_subject_trans", "animate_subject_passive"], label)
    table = [("f", "a", 1, "blimp", uid, group, 50.0) for uid, group in groups.items()]
    columns = ["family", "variant", "seed", "benchmark", "task", "group", "score"]
    found = normalise_rows(pd.DataFrame(table, columns=columns))
    assert len(found) == 67
    assert sorted(found.group.unique()) == sorted(BLIMP_PARADIGMS)
