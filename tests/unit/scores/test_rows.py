"""Rows of scores: their columns, headlines and files, and text that a spreadsheet would compute."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pytest

from base.errors import UsageError
from report.inputs.sources import read_source
from scores.rows import (
    ROW_COLUMNS,
    check_rows,
    empty_rows,
    of_each,
    of_each_row,
    read_rows,
    replace_task,
    to_csv,
    unmark,
    write_rows,
)


def row(**changes) -> dict:
    names = ("gpt_neo/kan/seed1-abc", "gpt_neo", "kan", 1, "blimp", "binding", "binding", "accuracy")
    values = (*names, 51.5, 100, "", True)
    return dict(zip(ROW_COLUMNS, values, strict=True)) | changes


def test_rows_survive_parquet_and_csv(tmp_path):
    rows = pd.DataFrame([row(), row(task="ellipsis", score=60)])
    path = write_rows(rows, tmp_path / "eval" / "rows.parquet")
    assert read_rows(path).to_dict("records") == rows.astype({"score": float}).to_dict("records")
    by_hand = pd.read_csv(tmp_path / "eval" / "rows.csv", keep_default_na=False)
    assert by_hand.to_dict("records") == rows.astype({"score": float}).to_dict("records")
    assert sorted(file.name for file in path.parent.iterdir()) == ["rows.csv", "rows.parquet"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{k: v for k, v in row().items() if k != "score"}], "no column score"),
        ([row(), row(score=3.0)], "two rows for gpt_neo/kan/seed1-abc blimp binding accuracy"),
        ([row(score=float("nan"))], "not a number"),
        ([row(seed="first")], "must be numbers"),
        ([row(), row(metric="f1")], "two primary metrics for gpt_neo/kan/seed1-abc blimp binding"),
        ([row(primary="yes")], "primary is 'yes'; it must be true or false"),
    ],
)
def test_faulty_rows_are_refused(rows, message):
    with pytest.raises(UsageError, match=message):
        check_rows(pd.DataFrame(rows))


def test_a_table_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(UsageError, match="evaluate the run first"):
        read_rows(tmp_path / "rows.parquet")
    (tmp_path / "rows.parquet").write_text("run_id,score\n")
    with pytest.raises(UsageError, match="cannot be read"):
        read_rows(tmp_path / "rows.parquet")


@pytest.mark.parametrize(
    ("rows", "head", "expected"),
    [
        ([row(), row(metric="f1", primary=False)], "", [("binding", "", 99.0), ("ellipsis", "", 51.5)]),
        (
            [row(head="default"), row(head="linear")],
            "linear",
            [("binding", "default", 51.5), ("binding", "linear", 99.0), ("ellipsis", "", 51.5)],
        ),
        # What was said of a task before there were heads goes.
        ([row()], "default", [("binding", "default", 99.0), ("ellipsis", "", 51.5)]),
    ],
)
def test_a_task_is_replaced_whole_under_its_head_alone(rows, head, expected):
    before = check_rows(pd.DataFrame([*rows, row(task="ellipsis")]))
    merged = replace_task(before, "blimp", "binding", pd.DataFrame([row(score=99.0)]), head)
    assert list(merged[["task", "head", "score"]].itertuples(index=False, name=None)) == expected


def test_columns_come_in_one_order_and_a_missing_head_is_none():
    shuffled = pd.DataFrame([row() | {"note": "x"}])[["note", *reversed(ROW_COLUMNS)]].drop(columns="head")
    assert tuple(check_rows(shuffled).columns) == ROW_COLUMNS
    assert check_rows(shuffled)["head"].tolist() == [""]
    assert tuple(empty_rows().columns) == ROW_COLUMNS


HEADLINES = {"cola": "matthews_correlation", "weather": "accuracy", "binding": "accuracy"}


def table_of(run: str) -> pd.DataFrame:
    """One run's rows, in any order."""
    rows = [
        *(row(task="cola", metric=name, head="default") for name in ("accuracy", "matthews_correlation")),
        *(row(task="weather", metric=name, head="default") for name in ("macro_f1", "accuracy")),
        *(row(metric=name) for name in ("ties", "accuracy")),
    ]
    table = pd.DataFrame(rows).assign(run_id=run)
    return table.assign(primary=table["metric"] == table["task"].map(HEADLINES))


def test_rows_of_both_kinds_stand_in_one_table(tmp_path):
    both = pd.concat([table_of("old").drop(columns="primary"), table_of("new")])
    expected = [metric == HEADLINES[task] for task, metric in zip(both["task"], both["metric"], strict=True)]
    assert check_rows(both)["primary"].tolist() == expected
    assert check_rows(both)["primary"].dtype == bool
    both.to_csv(tmp_path / "both.csv", index=False)
    by_hand = pd.read_csv(tmp_path / "both.csv", dtype=str, keep_default_na=False)
    assert check_rows(by_hand)["primary"].tolist() == expected
    both.to_parquet(tmp_path / "both.parquet", index=False)
    assert read_rows(tmp_path / "both.parquet")["primary"].tolist() == expected


def test_what_rows_say_goes_before_the_older_rule():
    found = check_rows(table_of("r").assign(primary=lambda table: table["metric"] == "accuracy"))
    assert set(found.loc[found["primary"], "metric"]) == {"accuracy"}
    # Without the rows that said it, the rule holds for what is left.
    assert check_rows(table_of("r").query("not primary"))["primary"].all()


def test_a_task_without_a_percentage_has_a_headline_too():
    rows = pd.DataFrame([row(metric=name) for name in ("perplexity", "bits_per_byte")])
    found = check_rows(rows.drop(columns="primary"))
    assert found.loc[found["primary"], "metric"].tolist() == ["bits_per_byte"]
    beside = pd.DataFrame([row(metric=name) for name in ("bits_per_byte", "exact_match")])
    found = check_rows(beside.drop(columns="primary"))
    assert found.loc[found["primary"], "metric"].tolist() == ["exact_match"]


@pytest.mark.parametrize(
    ("task", "metrics", "expected"),
    [
        ("QQP", ["accuracy", "f1"], "f1"),
        ("mrpc", ["accuracy"], "accuracy"),
        ("sts", ["spearman", "pearson"], "pearson"),
        ("rte", ["accuracy", "f1"], "accuracy"),
    ],
)
def test_of_rows_that_do_not_say_it_the_primary_metric_is_known(task, metrics, expected):
    rows = pd.DataFrame([row(benchmark="glue", task=task, metric=name) for name in metrics])
    found = check_rows(rows.drop(columns="primary"))
    assert found.loc[found["primary"], "metric"].tolist() == [expected]


TEXTS = ["=1+1", "+a", "-b", "@c", "\tx", "'=1", "'plain", "plain", "", "a=b", "relu - gelu"]


def test_what_a_spreadsheet_would_compute_is_marked_and_read_back_equal():
    table = pd.DataFrame({"text": TEXTS, "number": [-1.5 * i for i in range(len(TEXTS))]})
    written = to_csv(table)
    cells = list(csv.reader(io.StringIO(written)))[1:]
    assert not [text for text, _ in cells if text[:1] in tuple("=+-@\t")]
    assert [float(number) for _, number in cells] == table["number"].tolist()
    again = pd.read_csv(io.StringIO(written), dtype={"text": str}, keep_default_na=False)
    assert unmark(again)["text"].tolist() == TEXTS


def test_a_column_of_numbers_with_gaps_stays_one():
    table = pd.DataFrame({"low": pd.Series([-0.25, None], dtype=object)})
    assert to_csv(table) == pd.DataFrame({"low": [-0.25, None]}).to_csv(index=False)


def test_a_table_of_ours_is_a_source_again(tmp_path):
    name = "=relu"
    rows = [("gpt_neo", v, s, "blimp", 50.0 + s) for v in ("gelu", name) for s in (1, 2)]
    table = pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])
    (tmp_path / "scores.csv").write_text(to_csv(table), encoding="utf-8")
    assert set(read_source(tmp_path / "scores.csv").rows["variant"]) == {"gelu", name}


def test_each_row_has_the_value_of_a_plain_loop_and_each_name_is_looked_up_once():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"task": rng.choice(["b", "a", "c"], 200), "metric": rng.choice(["f1", ""], 200)})
    asked: list[tuple[str, str]] = []

    def joined(task: str, metric: str) -> tuple[str, str]:
        asked.append((task, metric))
        return task, metric

    found = of_each_row(table, joined)
    assert list(found) == [(row["task"], row["metric"]) for _, row in table.iterrows()]
    assert len(asked) == len(set(asked)) == 6
    assert list(of_each(table["task"], str.upper)) == [name.upper() for name in table["task"]]
    assert len(of_each(table["task"][:0], str.upper)) == 0
