from __future__ import annotations

import pandas as pd
import pytest

from ffn_variants import UsageError
from scores.rows import ROW_COLUMNS, check_rows, empty_rows, read_rows, replace_task, write_rows


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
        True,
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
    rows = pd.DataFrame([row(), row(metric="f1", primary=False), row(task="ellipsis")])
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
    with pytest.raises(UsageError, match="cannot be read"):
        read_rows(tmp_path / "rows.parquet")


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


def test_older_rows_get_the_column_that_newer_rows_have(tmp_path):
    new = check_rows(table_of("new"))
    table_of("new").drop(columns="primary").to_parquet(tmp_path / "old.parquet", index=False)
    pd.testing.assert_frame_equal(read_rows(tmp_path / "old.parquet"), new)
    assert new["primary"].dtype == bool


def test_rows_of_both_kinds_stand_in_one_table(tmp_path):
    both = pd.concat([table_of("old").drop(columns="primary"), table_of("new")])
    expected = [metric == HEADLINES[task] for task, metric in zip(both["task"], both["metric"], strict=True)]
    assert check_rows(both)["primary"].tolist() == expected
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


def test_two_primary_metrics_and_other_words_than_true_and_false_are_refused():
    with pytest.raises(UsageError, match="two primary metrics for gpt_neo/kan/seed1-abc blimp binding"):
        check_rows(pd.DataFrame([row(), row(metric="f1")]))
    with pytest.raises(UsageError, match="primary is 'yes'; it must be true or false"):
        check_rows(pd.DataFrame([row(primary="yes")]))
