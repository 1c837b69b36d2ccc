"""Scores of runs out of rows of tasks and metrics, means of suites, and the tables that `eval` prints."""

from __future__ import annotations

from itertools import product

import pandas as pd
import pytest

from scores.rows import check_rows
from scores.run_scores import is_percent, normalise_rows, run_scores, suite_means, summary
from scores.suites import BLIMP_PARADIGMS, SUITES


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


@pytest.mark.parametrize("label", ["s_selection", " S selection"])
def test_blimp_has_twelve_phenomena_whatever_its_file_calls_them(label: str):
    groups = {uid: group for group, uids in BLIMP_PARADIGMS.items() for uid in uids}
    groups |= dict.fromkeys(["animate_subject_trans", "animate_subject_passive"], label)
    table = [("f", "a", 1, "blimp", uid, group, 50.0) for uid, group in groups.items()]
    columns = ["family", "variant", "seed", "benchmark", "task", "group", "score"]
    found = normalise_rows(pd.DataFrame(table, columns=columns))
    assert len(found) == 67
    assert sorted(found.group.unique()) == sorted(BLIMP_PARADIGMS)


def rows_of(benchmark: str, scores: dict[tuple[str, str], float], metric: str = "accuracy") -> pd.DataFrame:
    return pd.DataFrame(
        {
            "run_id": "r", "family": "gpt_neo", "variant": "gelu", "seed": 1, "benchmark": benchmark,
            "task": task, "group": group, "metric": metric, "score": score, "n_items": 10,
            "primary": metric in ("accuracy", "spearman_correlation", "bits_per_byte"),
        }
        for (group, task), score in scores.items()
    )  # fmt: skip


def blimp() -> dict[tuple[str, str], float]:
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
    tied = rows_of(benchmark, {("binding", "principle_A_case_2"): 0.5}, "ties")  # which is in no mean
    fewer = rows_of(benchmark, {key: score for key, score in blimp().items() if key[0] != "ellipsis"})
    means = suite_means(pd.concat([fewer, tied]))
    assert means["mean of 65 paradigms"] == pytest.approx((58 * 50 + 7 * 100) / 65)
    assert means["mean of 11 phenomena"] == pytest.approx((10 * 50 + 100) / 11)


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


def test_what_is_a_percentage():
    metrics = ["accuracy", "spearman_correlation", "f1", "score", "ties", "accuracy_by_operations"]
    others = [
        "perplexity", "pseudo_perplexity", "word_perplexity", "pseudo_byte_perplexity", "bits_per_byte",
        "pseudo_bits_per_byte", "raw_brier_score",
    ]  # fmt: skip
    assert is_percent(pd.Series(metrics)).all()
    assert not is_percent(pd.Series(others)).any()


def test_perplexity_is_never_averaged_with_accuracy():
    text = {("held-out text", "validation"): 20.0}
    rows = [
        rows_of("perplexity", text, "perplexity"),
        rows_of("perplexity", dict.fromkeys(text, 1.2), "bits_per_byte"),
        # One benchmark with both: lm-eval's lambada.
        rows_of("lm-eval-lambada", {("lambada", "lambada"): 30.0}),
        rows_of("lm-eval-lambada", {("lambada", "lambada"): 500.0}, "perplexity"),
    ]
    scores, notes = run_scores(normalise_rows(pd.concat(rows)))
    assert dict(zip(scores.benchmark, scores.score, strict=True)) == {
        "lm-eval-lambada": 30,
        "perplexity": 1.2,
    }
    assert notes == []


def scored(
    benchmark: str, scores: dict[tuple[str, str], float], run: str = "r", head: str = ""
) -> pd.DataFrame:
    rows = (
        {
            "run_id": run, "family": "gpt_neo", "variant": "gelu", "seed": 1, "benchmark": benchmark,
            "task": task, "group": "GLUE", "metric": metric, "score": score, "n_items": 10, "head": head,
        }
        for (task, metric), score in scores.items()
    )  # fmt: skip
    return check_rows(pd.DataFrame(rows))


def glue(head: str, by: float, run: str = "r") -> pd.DataFrame:
    """MRPC before CoLA; of CoLA the headline last."""
    scores = {("mrpc", "f1"): 80.0, ("mrpc", "accuracy"): 70.0, ("cola", "accuracy"): 60.0}
    scores[("cola", "matthews_correlation")] = 10.0
    return scored("glue", {key: score + by for key, score in scores.items()}, run, head)


def cells(text: str) -> list[list[str]]:
    """The lines of a table: what stands in each, without the blanks between."""
    return [line.split() for line in text.splitlines() if line.strip()]


def test_heads_of_one_run_stand_across_in_the_order_asked() -> None:
    heads = {"mlp": 0.0, "default": 1.0, "linear frozen": -2.0}
    title, header, _, *lines = summary(
        [pd.concat([glue(head, by) for head, by in heads.items()])]
    ).splitlines()
    assert title == "glue, r"
    places = [header.index(head) for head in heads]
    assert places == sorted(places)
    assert cells("\n".join(lines)) == [
        ["mrpc", "f1", "80.0", "81.0", "78.0"],
        ["accuracy", "70.0", "71.0", "68.0"],
        ["cola", "matthews_correlation", "10.0", "11.0", "8.0"],
        ["accuracy", "60.0", "61.0", "58.0"],
        ["mean", "of", "2", "tasks", "45.0", "46.0", "43.0"],
    ]


def test_of_several_runs_each_head_has_a_table() -> None:
    runs = {"b": 5.0, "a": 0.0}
    text = summary(
        [pd.concat([glue(head, by, run) for head in ("mlp", "linear")]) for run, by in runs.items()]
    )
    mlp, linear = (cells(part) for part in text.split("\n\n"))
    assert [mlp[0], linear[0]] == [["glue,", "head", "mlp"], ["glue,", "head", "linear"]]
    assert mlp[1:] == linear[1:]
    assert mlp[1] == ["b", "a"]
    assert mlp[3] == ["mrpc", "f1", "85.0", "80.0"]


def test_a_score_that_a_head_lacks_is_a_dash() -> None:
    both = pd.concat([glue("mlp", 0), glue("linear", 0)])
    without = both[~((both["head"] == "linear") & (both["task"] == "cola"))]
    lines = cells(summary([without]))
    assert ["cola", "matthews_correlation", "10.0", "-"] in lines
    assert ["mean", "of", "2", "tasks", "45.0", "-"] in lines


def test_the_title_names_a_head_that_was_chosen() -> None:
    titles = {head: summary([glue(head, 0)]).splitlines()[0] for head in ("default", "mlp")}
    assert titles == {"default": "glue", "mlp": "glue, head mlp"}


def test_tasks_of_ones_own_have_no_mean_and_those_of_a_suite_have() -> None:
    scores = dict.fromkeys(product(("mood", "news"), ("macro_f1", "accuracy")), 50.0)
    text = summary(
        [pd.concat([scored("classification", scores, head="mlp"), scored("mine", scores, head="mlp")])]
    )
    own, grouped = text.split("\n\n")
    assert "mean" not in own
    assert "mean of 2 tasks" in grouped  # the user's benchmark says that they belong together
    assert cells(own)[3:] == [
        ["mood", "accuracy", "50.0"],
        ["macro_f1", "50.0"],
        ["news", "accuracy", "50.0"],
        ["macro_f1", "50.0"],
    ]
    blimp = scored("blimp", {("adjunct_island", "accuracy"): 40.0, ("passive_1", "accuracy"): 60.0})
    assert ["mean", "of", "2", "paradigms", "50.0"] in cells(summary([blimp]))
