from __future__ import annotations

import pandas as pd
import pytest

from eval.results.rows import ROW_COLUMNS, check_rows, empty_rows, read_rows, replace_task, write_rows
from ffn_variants import UsageError


def row(**changes) -> dict:
    values = (
        "gpt_neo/kan/seed1-abc",
        "gpt_neo",
        "kan",
        1,
        "blimp",
        "binding",
        "binding",
        "accuracy",
        51.5,
        100,
        "",
    )
    return dict(zip(ROW_COLUMNS, values, strict=True)) | changes


def test_rows_survive_parquet_and_csv(tmp_path):
    rows = pd.DataFrame([row(), row(task="ellipsis", score=60)])
    path = write_rows(rows, tmp_path / "eval" / "rows.parquet")
    assert read_rows(path).to_dict("records") == rows.astype({"score": float}).to_dict("records")
    by_hand = pd.read_csv(tmp_path / "eval" / "rows.csv", keep_default_na=False)
    assert by_hand.to_dict("records") == rows.astype({"score": float}).to_dict("records")
    assert sorted(file.name for file in path.parent.iterdir()) == ["rows.csv", "rows.parquet"]


def test_columns_come_in_one_order_and_others_are_left_out():
    shuffled = pd.DataFrame([row() | {"note": "x"}])[["note", *reversed(ROW_COLUMNS)]]
    assert tuple(check_rows(shuffled).columns) == ROW_COLUMNS
    assert tuple(empty_rows().columns) == ROW_COLUMNS


def test_a_task_is_replaced_whole():
    rows = pd.DataFrame([row(), row(metric="f1"), row(task="ellipsis")])
    merged = replace_task(check_rows(rows), "blimp", "binding", pd.DataFrame([row(score=99.0)]))
    assert merged[["task", "metric", "score"]].to_dict("split")["data"] == [
        ["binding", "accuracy", 99.0],
        ["ellipsis", "accuracy", 51.5],
    ]


def test_a_task_is_replaced_under_its_head_alone():
    rows = pd.DataFrame([row(head="default"), row(head="linear"), row(task="ellipsis")])
    new = pd.DataFrame([row(score=99.0)])
    merged = replace_task(check_rows(rows), "blimp", "binding", new, "linear")
    assert merged[["task", "head", "score"]].to_dict("split")["data"] == [
        ["binding", "default", 51.5],
        ["binding", "linear", 99.0],
        ["ellipsis", "", 51.5],
    ]


def test_what_was_said_of_a_task_before_there_were_heads_goes():
    rows = check_rows(pd.DataFrame([row(), row(task="ellipsis")]))
    merged = replace_task(rows, "blimp", "binding", pd.DataFrame([row(score=99.0)]), "default")
    assert merged[["task", "head"]].to_dict("split")["data"] == [["binding", "default"], ["ellipsis", ""]]


def test_tables_from_before_there_were_heads_are_read():
    assert check_rows(pd.DataFrame([row()]).drop(columns="head"))["head"].tolist() == [""]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{k: v for k, v in row().items() if k != "score"}], "no column score"),
        ([row(), row(score=3.0)], "two rows for gpt_neo/kan/seed1-abc blimp binding accuracy"),
        ([row(score=float("nan"))], "not a number"),
        ([row(seed="first")], "must be numbers"),
    ],
)
def test_faulty_rows_are_refused(rows, message):
    with pytest.raises(UsageError, match=message):
        check_rows(pd.DataFrame(rows))


def test_reading_what_is_no_table_of_rows(tmp_path):
    with pytest.raises(UsageError, match="evaluate the run first"):
        read_rows(tmp_path / "rows.parquet")
    (tmp_path / "rows.parquet").write_text("run_id,score\n")
    with pytest.raises(UsageError, match="not a parquet file"):
        read_rows(tmp_path / "rows.parquet")
