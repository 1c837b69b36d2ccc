"""Rows of scores, their columns, headlines and files; means of runs and suites, and the tables of `eval`."""

import csv
import io
from itertools import product

import numpy as np
import pandas as pd
import pytest

from base.errors import UsageError
from report.inputs.sources import read_source
from scores import rows as rows_module
from scores.run_scores import is_percent, normalise_rows, run_scores, suite_means, summary
from scores.suites import BLIMP_PARADIGMS, SUITES
from tests.cases import listed


def row(**changes) -> dict:
    names = ("gpt_neo/kan/seed1-abc", "gpt_neo", "kan", 1, "blimp", "binding", "binding", "accuracy")
    values = (*names, 51.5, 100, "", True)
    return dict(zip(rows_module.ROW_COLUMNS, values, strict=True)) | changes


def test_rows_survive_parquet_and_csv(tmp_path):
    rows = pd.DataFrame([row(), row(task="ellipsis", score=60)])
    path = rows_module.write_rows(rows, tmp_path / "eval" / "rows.parquet")
    assert rows_module.read_rows(path).to_dict("records") == rows.astype({"score": float}).to_dict("records")
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
        rows_module.check_rows(pd.DataFrame(rows))


def test_a_table_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(UsageError, match="evaluate the run first"):
        rows_module.read_rows(tmp_path / "rows.parquet")
    (tmp_path / "rows.parquet").write_text("run_id,score\n")
    with pytest.raises(UsageError, match="cannot be read"):
        rows_module.read_rows(tmp_path / "rows.parquet")


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
    before = rows_module.check_rows(pd.DataFrame([*rows, row(task="ellipsis")]))
    merged = rows_module.replace_task(before, "blimp", "binding", pd.DataFrame([row(score=99.0)]), head)
    assert list(merged[["task", "head", "score"]].itertuples(index=False, name=None)) == expected


def test_columns_come_in_one_order_and_a_missing_head_is_none():
    names = ["note", *(name for name in reversed(rows_module.ROW_COLUMNS) if name != "head")]
    shuffled = pd.DataFrame([row() | {"note": "x"}])[names]
    assert tuple(rows_module.check_rows(shuffled).columns) == rows_module.ROW_COLUMNS
    assert rows_module.check_rows(shuffled)["head"].tolist() == [""]
    assert tuple(rows_module.empty_rows().columns) == rows_module.ROW_COLUMNS


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
    assert rows_module.check_rows(both)["primary"].tolist() == expected
    assert rows_module.check_rows(both)["primary"].dtype == bool
    both.to_csv(tmp_path / "both.csv", index=False)
    by_hand = pd.read_csv(tmp_path / "both.csv", dtype=str, keep_default_na=False)
    assert rows_module.check_rows(by_hand)["primary"].tolist() == expected
    both.to_parquet(tmp_path / "both.parquet", index=False)
    assert rows_module.read_rows(tmp_path / "both.parquet")["primary"].tolist() == expected


def test_what_rows_say_goes_before_the_older_rule():
    found = rows_module.check_rows(table_of("r").assign(primary=lambda table: table["metric"] == "accuracy"))
    assert set(found.loc[found["primary"], "metric"]) == {"accuracy"}
    # Without the rows that said it, the rule holds for what is left.
    assert rows_module.check_rows(table_of("r").query("not primary"))["primary"].all()


@pytest.mark.parametrize(("task", "metrics", "expected"), listed(__file__, "primary metrics"))
def test_of_rows_that_do_not_say_it_the_primary_metric_is_known(task, metrics, expected):
    rows = pd.DataFrame([row(benchmark="glue", task=task, metric=name) for name in metrics])
    found = rows_module.check_rows(rows.drop(columns="primary"))
    assert found.loc[found["primary"], "metric"].tolist() == [expected]


TEXTS = ["=1+1", "+a", "-b", "@c", "\tx", "'=1", "'plain", "plain", "", "a=b", "relu - gelu"]


def test_what_a_spreadsheet_would_compute_is_marked_and_read_back_equal():
    table = pd.DataFrame({"text": TEXTS, "number": [-1.5 * i for i in range(len(TEXTS))]})
    written = rows_module.to_csv(table)
    cells = list(csv.reader(io.StringIO(written)))[1:]
    assert not [text for text, _ in cells if text[:1] in tuple("=+-@\t")]
    assert [float(number) for _, number in cells] == table["number"].tolist()
    again = pd.read_csv(io.StringIO(written), dtype={"text": str}, keep_default_na=False)
    assert rows_module.unmark(again)["text"].tolist() == TEXTS


def test_a_column_of_numbers_with_gaps_stays_one():
    table = pd.DataFrame({"low": pd.Series([-0.25, None], dtype=object)})
    assert rows_module.to_csv(table) == pd.DataFrame({"low": [-0.25, None]}).to_csv(index=False)


def test_a_table_of_ours_is_a_source_again(tmp_path):
    name = "=relu"
    rows = [("gpt_neo", v, s, "blimp", 50.0 + s) for v in ("gelu", name) for s in (1, 2)]
    table = pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])
    (tmp_path / "scores.csv").write_text(rows_module.to_csv(table), encoding="utf-8")
    assert set(read_source(tmp_path / "scores.csv").rows["variant"]) == {"gelu", name}


def test_each_row_has_the_value_of_a_plain_loop_and_each_name_is_looked_up_once():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"task": rng.choice(["b", "a", "c"], 200), "metric": rng.choice(["f1", ""], 200)})
    asked: list[tuple[str, str]] = []

    def joined(task: str, metric: str) -> tuple[str, str]:
        asked.append((task, metric))
        return task, metric

    found = rows_module.of_each_row(table, joined)
    assert list(found) == [(row["task"], row["metric"]) for _, row in table.iterrows()]
    assert len(asked) == len(set(asked)) == 6
    assert list(rows_module.of_each(table["task"], str.upper)) == [name.upper() for name in table["task"]]
    assert len(rows_module.of_each(table["task"][:0], str.upper)) == 0


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
            "primary": metric in ("accuracy", "bits_per_byte"),
        }
        for (group, task), score in scores.items()
    )  # fmt: skip


def blimp() -> dict[tuple[str, str], float]:
    """All paradigms at 50 but those of binding, of which there are seven, at 100."""
    places = [(phenomenon, uid) for phenomenon, uids in BLIMP_PARADIGMS.items() for uid in uids]
    return {place: 100.0 if place[0] == "binding" else 50.0 for place in places}


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
    scores = {(name, name): 60.0 for name in BLIMP_PARADIGMS}
    scores |= {(name, name): 90.0 for name in SUITES["blimp-supplement"].tasks}
    rows = rows_of("babylm23", scores)
    expected = {
        "mean of 17 tasks": pytest.approx((12 * 60 + 5 * 90) / 17),
        "mean of 12 filtered BLiMP tasks": pytest.approx(60),
        "mean of 5 supplement tasks": pytest.approx(90),
    }
    assert suite_means(rows) == expected
    names = {"task": ["binding"] * 4 + ["hypernym"], "paradigm": ["a", "a", "a", "b", "hypernym"]}
    items = pd.DataFrame({**names, "correct": [1, 1, 1, 0, 0]})
    assert suite_means(rows, items) == {**expected, "mean of 2 filtered BLiMP paradigms": pytest.approx(50)}


def test_what_has_one_task_or_no_percentage_has_no_mean():
    assert suite_means(rows_of("ewok", {("ewok", "w"): 12.0})) == {}
    two = {("held-out text", "a"): 20.0, ("held-out text", "b"): 30.0}
    assert suite_means(rows_of("perplexity", two, "perplexity")) == {}


def test_what_is_a_percentage():
    metrics = ["accuracy", "matthews_correlation", "f1", "score", "ties"]
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
    assert scores.set_index("benchmark").score.to_dict() == {"lm-eval-lambada": 30, "perplexity": 1.2}
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
    return rows_module.check_rows(pd.DataFrame(rows))


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
    rows = pd.concat([glue(head, by) for head, by in heads.items()])
    title, header, _, *lines = summary([rows]).splitlines()
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
    tables = [[glue(head, by, run) for head in ("mlp", "linear")] for run, by in runs.items()]
    text = summary([pd.concat(of_run) for of_run in tables])
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
    both = [scored(benchmark, scores, head="mlp") for benchmark in ("classification", "mine")]
    text = summary([pd.concat(both)])
    own, grouped = text.split("\n\n")
    assert "mean" not in own
    assert "mean of 2 tasks" in grouped  # the user's benchmark says that they belong together
    mood, news = ([[task, "accuracy", "50.0"], ["macro_f1", "50.0"]] for task in ("mood", "news"))
    assert cells(own)[3:] == mood + news
    blimp = scored("blimp", {("adjunct_island", "accuracy"): 40.0, ("passive_1", "accuracy"): 60.0})
    assert ["mean", "of", "2", "paradigms", "50.0"] in cells(summary([blimp]))
