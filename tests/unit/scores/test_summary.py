"""The tables with which ``python -m eval`` ends."""

from __future__ import annotations

from itertools import product

import pandas as pd

from scores.rows import check_rows
from scores.run_scores import summary


def rows_of(
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
    return rows_of("glue", {key: score + by for key, score in scores.items()}, run, head)


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
        [pd.concat([rows_of("classification", scores, head="mlp"), rows_of("mine", scores, head="mlp")])]
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
    blimp = rows_of("blimp", {("adjunct_island", "accuracy"): 40.0, ("passive_1", "accuracy"): 60.0})
    assert ["mean", "of", "2", "paradigms", "50.0"] in cells(summary([blimp]))
