"""Means under names that say what they are means of, and what is never averaged."""

from __future__ import annotations

import pandas as pd
import pytest

from report.compute import analyse
from report.inputs.sources import read_source
from report.write import number_tables
from scores.run_scores import is_percent, normalise_rows, run_scores, suite_means
from scores.suites import BLIMP_PARADIGMS, SUITES


def rows_of(benchmark: str, scores: dict[tuple[str, str], float], metric: str = "accuracy") -> pd.DataFrame:
    return pd.DataFrame(
        {
            "run_id": "r", "family": "gpt_neo", "variant": "gelu", "seed": 1, "benchmark": benchmark,
            "task": task, "group": group, "metric": metric, "score": score, "n_items": 10,
            "primary": metric in ("accuracy", "spearman_correlation", "bits_per_byte"),
        }
        for (group, task), score in scores.items()
    )  # fmt: skip


def blimp(benchmark: str = "blimp") -> dict[tuple[str, str], float]:
    """All paradigms at 50 but those of binding, of which there are seven, at 100."""
    return {
        (phenomenon, uid): 100.0 if phenomenon == "binding" else 50.0
        for phenomenon, uids in BLIMP_PARADIGMS.items()
        for uid in uids
    }


@pytest.mark.parametrize("benchmark", ["blimp", "blimp-fast"])
def test_blimp_has_a_mean_of_67_and_one_of_12(benchmark):
    assert suite_means(rows_of(benchmark, blimp())) == {
        "mean of 67 paradigms": pytest.approx((60 * 50 + 7 * 100) / 67),
        "mean of 12 phenomena": pytest.approx((11 * 50 + 100) / 12),
    }


def test_a_mean_over_fewer_tasks_says_so():
    scores = {key: score for key, score in blimp().items() if key[0] != "ellipsis"}
    assert list(suite_means(rows_of("blimp", scores))) == ["mean of 65 paradigms", "mean of 11 phenomena"]


def test_babylm_2023_pools_the_pairs_of_a_task_and_2025_counts_paradigms():
    scores = {(name, name): 60.0 for name in BLIMP_PARADIGMS} | {
        (name, name): 90.0 for name in SUITES["blimp-supplement"].tasks
    }
    rows = rows_of("babylm23", scores)
    expected = {
        "mean of 17 tasks": pytest.approx((12 * 60 + 5 * 90) / 17),
        "mean of 12 filtered BLiMP tasks": pytest.approx(60),
        "mean of 5 supplement tasks": pytest.approx(90),
    }
    assert suite_means(rows) == expected
    items = pd.DataFrame(
        {
            "task": ["binding"] * 4 + ["hypernym"],
            "paradigm": ["a", "a", "a", "b", "hypernym"],
            "correct": [1, 1, 1, 0, 0],
        }
    )
    assert suite_means(rows, items) == {**expected, "mean of 2 filtered BLiMP paradigms": pytest.approx(50)}


def test_entity_tracking_has_the_mean_over_operations_too():
    names = {("entity_tracking", name): 20.0 for name in ("regular", "ambiref", "move_contents")}
    rows = pd.concat(
        [
            rows_of("entity-tracking", names),
            rows_of("entity-tracking", dict.fromkeys(names, 30.0), "accuracy_by_operations"),
        ]
    )
    assert suite_means(rows) == {
        "mean of 3 tasks": pytest.approx(20),
        "mean of 3 tasks, each over its numbers of operations": pytest.approx(30),
    }


def test_what_has_one_task_or_no_percentage_has_no_mean():
    assert suite_means(rows_of("wug", {("morphology", "w"): 12.0}, "spearman_correlation")) == {}
    two = {("held-out text", "a"): 20.0, ("held-out text", "b"): 30.0}
    assert suite_means(rows_of("perplexity", two, "perplexity")) == {}


def test_a_tie_is_told_and_not_averaged():
    tied = rows_of("blimp", {("binding", "principle_A_case_2"): 0.5}, "ties")
    rows = pd.concat([rows_of("blimp", blimp()), tied])
    assert suite_means(rows)["mean of 67 paradigms"] == pytest.approx((60 * 50 + 7 * 100) / 67)


def test_what_is_a_percentage():
    metrics = ["accuracy", "spearman_correlation", "f1", "score", "ties", "accuracy_by_operations"]
    others = [
        "perplexity", "pseudo_perplexity", "word_perplexity", "pseudo_byte_perplexity", "bits_per_byte",
        "pseudo_bits_per_byte", "raw_brier_score",
    ]  # fmt: skip
    assert is_percent(pd.Series(metrics)).all()
    assert not is_percent(pd.Series(others)).any()


def study_rows() -> pd.DataFrame:
    tables = []
    for variant, seed in ((v, s) for v in ("gelu", "kan") for s in (1, 2)):
        table = pd.concat(
            [
                rows_of("blimp", blimp()),
                rows_of("perplexity", {("held-out text", "validation"): 20.0}, "perplexity"),
                rows_of("perplexity", {("held-out text", "validation"): 1.2}, "bits_per_byte"),
                # One benchmark with both: lm-eval's lambada.
                rows_of("lm-eval-lambada", {("lambada", "lambada"): 30.0}),
                rows_of("lm-eval-lambada", {("lambada", "lambada"): 500.0}, "perplexity"),
            ]
        )
        tables.append(table.assign(variant=variant, seed=seed, run_id=f"gpt_neo/{variant}/{seed}"))
    return pd.concat(tables)


def test_perplexity_is_never_averaged_with_accuracy():
    scores, notes = run_scores(normalise_rows(study_rows()))
    assert set(scores["benchmark"]) == {"blimp", "lm-eval-lambada", "perplexity"}
    assert scores.loc[scores["benchmark"] == "lm-eval-lambada", "score"].tolist() == [30.0] * 4
    assert notes == []
    assert scores.loc[scores["benchmark"] == "perplexity", "score"].tolist() == [1.2] * 4  # bits per byte


def test_a_report_with_perplexity_misses_nothing(tmp_path):
    path = tmp_path / "scores.csv"
    study_rows().to_csv(path, index=False)
    analysis = analyse(read_source(path))
    assert tuple(map(str, analysis.benchmarks)) == ("blimp", "perplexity", "lm-eval-lambada")
    assert [analysis.metric(name).better for name in analysis.benchmarks] == ["higher", "lower", "higher"]
    assert analysis.missing.empty
    means = (
        number_tables(analysis)["tasks"]
        .query("benchmark == 'perplexity'")
        .groupby("metric")["mean"]
        .agg(["min", "max"])
    )
    assert means.loc["bits_per_byte"].tolist() == [1.2, 1.2]
    assert means.loc["perplexity"].tolist() == [20.0, 20.0]
