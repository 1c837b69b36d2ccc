"""Tables and result files of other people: the same scores, whatever their shape, and one line a mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from base.errors import UsageError
from report.compute import analyse
from report.inputs.sources import Source, read_source, source_of_frame
from report.readers.reading import split_names
from report.request import Request

Scores = dict[tuple[str, int, str], float]

SCORES: Scores = {
    (variant, seed, benchmark): score
    for variant, level in (("gelu", 58.125), ("none", 61.5))
    for seed in (1, 2, 3)
    for benchmark, score in (("blimp", level + seed / 8), ("ewok", level - seed / 4))
}
"""Exact in binary and in three decimals."""
RUNS = sorted({(variant, seed) for variant, seed, _ in SCORES})
BENCHMARKS = ("blimp", "ewok")


def read(source: Source) -> Scores:
    """The scores of a source, by variant, seed and benchmark."""
    rows = source.rows[source.rows["primary"]]
    keys = zip(rows.variant, rows.seed, rows.benchmark, strict=True)
    return dict(zip(keys, rows.score, strict=True))


def as_text(path: Path, header: list[str], rows: list[list[Any]], delimiter: str = ",") -> None:
    lines = [delimiter.join(f'"{x}"' if delimiter in str(x) else str(x) for x in row) for row in rows]
    path.write_text("\n".join([delimiter.join(header), *lines]) + "\n", encoding="utf-8")


def as_long(path: Path) -> Request:
    as_text(
        path, ["family", "variant", "seed", "benchmark", "score"], [["f", *k, v] for k, v in SCORES.items()]
    )
    return Request()


def as_german(path: Path) -> Request:
    rows = [[*key, f"{score}".replace(".", ",")] for key, score in SCORES.items()]
    as_text(path, ["Variant", "SEED", "Benchmark", "Score"], rows, ";")
    return Request()


def with_tabs(path: Path) -> Request:
    as_text(path, ["variant", "seed", "benchmark", "score"], [[*k, v] for k, v in SCORES.items()], "\t")
    return Request()


def from_excel(path: Path) -> Request:
    rows = ["variant;seed;benchmark;score;"]
    rows += [";".join(map(str, (*key, f"{score} %", ""))) for key, score in SCORES.items()]
    path.write_text("\r\n".join(rows), encoding="utf-16")
    return Request()


def as_wide(path: Path) -> Request:
    rows = [[v, s, *(f"{SCORES[v, s, b]}%" for b in BENCHMARKS)] for v, s in RUNS]
    as_text(path, ["variant", "seed", *BENCHMARKS], rows)
    return Request(scores=BENCHMARKS)


def with_other_columns(path: Path) -> Request:
    rows = [[0.001, v, s, "x", *(SCORES[v, s, b] for b in BENCHMARKS)] for v, s in RUNS]
    as_text(path, ["lr", "Activation function", "config.seed", "variant", *BENCHMARKS], rows)
    columns = ("variant=Activation function", "seed=config.seed")
    return Request(columns=columns, scores=BENCHMARKS)


def without_seeds(path: Path) -> Request:
    rows = [[v, *(SCORES[v, s, b] for b in BENCHMARKS)] for v, s in RUNS]
    as_text(path, ["variant", *BENCHMARKS], rows)
    return Request(scores=BENCHMARKS)


_WANDB = ["Name", "State", "Notes", "User", "Tags", "Created", "Runtime", "Sweep", "lr"]


def as_table_of_runs(path: Path) -> Request:
    """W&B's table of runs; one of them crashed, and its score is of another step."""
    rows = [
        [
            f"{v}-seed{s}",
            "finished",
            "",
            "me",
            "",
            "2026",
            "9",
            "",
            "0.1",
            *(SCORES[v, s, b] for b in BENCHMARKS),
        ]
        for v, s in RUNS
    ]
    rows.append(["none-seed4", "crashed", "", "me", "", "2026", "9", "", "0.1", "1.0", "1.0"])
    as_text(path, [*_WANDB, *BENCHMARKS], rows)
    return Request(scores=BENCHMARKS)


SHAPES = (
    as_long, as_german, with_tabs, from_excel, as_wide, with_other_columns, without_seeds, as_table_of_runs,
)  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_a_table_gives_the_same_scores(shape: Callable[[Path], Request], tmp_path: Path):
    reading = shape(tmp_path / "scores.csv")
    source = read_source(tmp_path / "scores.csv", reading)
    assert read(source) == SCORES
    assert source.rows.family.nunique() == 1


def test_a_column_that_rows_and_a_benchmark_share_is_no_score(tmp_path: Path):
    """Without ``--scores`` only names that are known are scores, and other numbers are asked about."""
    rows = [[v, s, *(SCORES[v, s, b] for b in BENCHMARKS), 0.1] for v, s in RUNS]
    as_text(tmp_path / "a.csv", ["variant", "seed", "blimp", "accuracy"], [row[:4] for row in rows])
    assert set(read_source(tmp_path / "a.csv").rows.benchmark) == {"blimp", "accuracy"}
    as_text(tmp_path / "b.csv", ["variant", "seed", *BENCHMARKS, "lr"], rows)
    with pytest.raises(UsageError, match=r"say which columns are scores, with --scores: .* blimp, ewok, lr"):
        read_source(tmp_path / "b.csv")


def test_a_frame_is_read_as_a_file_is(tmp_path: Path):
    as_other = with_other_columns(tmp_path / "scores.csv")
    frame = pd.read_csv(tmp_path / "scores.csv", dtype={"config.seed": int}, keep_default_na=False)
    assert read(source_of_frame(frame, as_other)) == SCORES


def test_what_was_guessed_or_left_out_is_said(tmp_path: Path):
    notes = {shape: notes_of(shape, tmp_path) for shape in SHAPES}
    assert "left out, not finished: row 8 (crashed)" in notes[as_table_of_runs]
    assert "gelu-seed1 is gelu, seed 1" in notes[as_table_of_runs]
    assert "commas in scores are read as decimal" in notes[as_german]
    assert "no column says seeds" in notes[without_seeds]
    assert notes[as_long] == notes[with_tabs] == notes[as_wide] == ""


def notes_of(shape: Callable[[Path], Request], tmp_path: Path) -> str:
    path = tmp_path / f"{shape.__name__}.csv"
    return "; ".join(read_source(path, shape(path)).notes)


@pytest.mark.parametrize("header", ["name,model", "Name,method", "run,model", "model,run_name", "model,Name"])
def test_of_two_columns_of_names_beside_seeds_the_variant_is_the_one_that_seeds_share(
    header: str, tmp_path: Path
):
    rows = [
        {"variant": v, "name": f"fluffy-{s}{v}", "seed": s, **{b: SCORES[v, s, b] for b in BENCHMARKS}}
        for v, s in RUNS
    ]
    order = ["variant", "name"] if header.startswith("model") else ["name", "variant"]
    names = [*header.split(","), "seed", *BENCHMARKS]
    as_text(tmp_path / "a.csv", names, [[row[x] for x in (*order, "seed", *BENCHMARKS)] for row in rows])
    source = read_source(tmp_path / "a.csv")
    assert read(source) == SCORES
    assert [note.partition(";")[0] for note in source.notes] == [
        f"names are those of {variant_column(header)}"
    ]


def variant_column(header: str) -> str:
    return next(name for name in header.split(",") if name in ("model", "method"))


def test_a_second_column_of_names_that_tells_arms_apart_is_named(tmp_path: Path):
    rows = [[s, v, f"m{s % 2}", *(SCORES[v, s, b] for b in BENCHMARKS)] for v, s in RUNS]
    as_text(tmp_path / "a.csv", ["run", "method", "model", *BENCHMARKS], rows)
    source = read_source(tmp_path / "a.csv")
    assert read(source) == SCORES
    assert "names are those of method; not read: run, model" in source.notes


def test_a_variant_without_a_score_is_named(tmp_path: Path):
    rows = [[v, s, SCORES.get((v, s, "blimp"), "-")] for v in ("gelu", "none", "kan") for s in (1, 2, 3)]
    as_text(tmp_path / "a.csv", ["variant", "seed", "blimp"], rows)
    assert "left out, as no score of it is left: kan" in read_source(tmp_path / "a.csv").notes
    as_text(
        tmp_path / "b.csv", ["model", "benchmark", "seed_1"], [["kan", "blimp", "-"], ["gelu", "blimp", 1]]
    )
    assert "left out, as no score of it is left: kan" in read_source(tmp_path / "b.csv").notes


@pytest.mark.parametrize(("cell", "is_lower"), [("false", True), ("True", False), ("0", True)])
def test_a_column_that_says_what_is_better_when_higher_is_heeded(cell: str, is_lower: bool, tmp_path: Path):
    rows = [[*key, score, cell] for key, score in SCORES.items()]
    as_text(tmp_path / "a.csv", ["variant", "seed", "benchmark", "score", "higher_is_better"], rows)
    said = read_source(tmp_path / "a.csv").declared.lower_is_better
    assert set(said.values()) == {is_lower}


def test_other_numbers_beside_the_column_score_are_no_scores(tmp_path: Path):
    rows = [[*key, score, 1.0, 2] for key, score in SCORES.items()]
    as_text(tmp_path / "a.csv", ["variant", "seed", "benchmark", "score", "accuracy", "n"], rows)
    source = read_source(tmp_path / "a.csv")
    assert read(source) == SCORES
    assert source.notes == ()


BOOKKEEPING = (
    "_step",
    "_runtime",
    "_timestamp",
    "epoch",
    "global_step",
    "trainer/global_step",
    "train/epoch",
)


def test_bookkeeping_of_a_wide_table_is_no_score_unless_asked_for(tmp_path: Path):
    rows = [[v, s, *(SCORES[v, s, b] for b in BENCHMARKS), *(1 for _ in BOOKKEEPING)] for v, s in RUNS]
    as_text(tmp_path / "a.csv", ["variant", "seed", *BENCHMARKS, *BOOKKEEPING], rows)
    assert read(read_source(tmp_path / "a.csv")) == SCORES
    asked = read_source(tmp_path / "a.csv", Request(scores=("blimp", "epoch")))
    assert set(asked.rows.benchmark) == {"blimp", "epoch"}


@pytest.mark.parametrize(
    ("column", "ended", "other"),
    [
        ("state", "finished", "crashed"), ("State", "finished", "running"), ("Status", "FINISHED", "KILLED"),
        ("status", "FINISHED", ""), ("sys/state", "Inactive", "Active"), ("trial_state", "COMPLETE", "FAIL"),
        ("run.status", "success", "weird"), ("status", "ok", "failed"), ("finished", "True", "False"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_long", [True, False])
def test_runs_that_a_tracker_says_did_not_finish_are_left_out(
    column: str, ended: str, other: str, is_long: bool, tmp_path: Path
):
    path = tmp_path / "a.csv"
    num_rows = len(SCORES) if is_long else len(RUNS)
    if is_long:
        rows = [[*key, score, ended] for key, score in SCORES.items()]
        as_text(
            path,
            ["variant", "seed", "benchmark", "score", column],
            [*rows, ["none", 4, "blimp", 1.0, other]],
        )
    else:
        wide = [[v, s, *(SCORES[v, s, b] for b in BENCHMARKS), ended] for v, s in RUNS]
        as_text(path, ["variant", "seed", *BENCHMARKS, column], [*wide, ["none", 4, 1.0, 1.0, other]])
    source = read_source(path)
    assert read(source) == SCORES
    assert source.notes == (f"left out, not finished: row {num_rows + 2} ({other.lower() or 'no state'})",)


def test_every_column_on_states_is_heeded(tmp_path: Path):
    rows = [[v, s, *(SCORES[v, s, b] for b in BENCHMARKS), "finished", "ok"] for v, s in RUNS]
    rows += [["none", 4, 1.0, 1.0, "finished", "failed"], ["none", 5, 1.0, 1.0, "crashed", "ok"]]
    as_text(tmp_path / "a.csv", ["variant", "seed", *BENCHMARKS, "state", "status"], rows)
    source = read_source(tmp_path / "a.csv")
    assert read(source) == SCORES
    assert source.notes == tuple(f"left out, not finished: row {x}" for x in ("9 (crashed)", "8 (failed)"))


def test_a_state_that_is_no_run_s_leaves_runs_alone(tmp_path: Path):
    rows = [[*key, score, "CA" if key[1] == 1 else "NY"] for key, score in SCORES.items()]
    as_text(tmp_path / "a.csv", ["variant", "seed", "benchmark", "score", "state"], rows)
    assert read(read_source(tmp_path / "a.csv")) == SCORES
    rows = [[*key, score, "running"] for key, score in SCORES.items()]
    as_text(tmp_path / "b.csv", ["variant", "seed", "benchmark", "score", "state"], rows)
    with pytest.raises(UsageError, match=r"state says of no run that it finished \(running\)"):
        read_source(tmp_path / "b.csv")
    assert len(read_source(tmp_path / "b.csv", Request(axis=("state",))).rows) == len(SCORES)


@pytest.mark.parametrize(
    ("names", "template", "expected"),
    [
        (["gelu-seed1", "kan-seed12"], None, [("gelu", "1"), ("kan", "12")]),
        (["out/gelu_s1", "out/kan_s2"], None, [("gelu", "1"), ("kan", "2")]),
        (["relus3", "kan"], None, [("relus3", ""), ("kan", "")]),
        (["runs/a/gpt_neo/gelu/seed1-0a1b2c3d/model"], None, [("gelu", "1")]),
        (["x/learnable-gelu/seed_7"], None, [("learnable-gelu", "7")]),
        (["a/b", "c/b"], None, [("a/b", ""), ("c/b", "")]),
        (["me/9m-learnable-gelu.3"], "9m-{variant}.{seed}", [("learnable-gelu", "3")]),
        (["a_b_3_x", "c_4_y"], "{variant}_{seed}_{_}", [("a_b", "3"), ("c", "4")]),
        (["x/1M/kan/2"], "{size}/{variant}/{seed}", [("kan", "2")]),
    ],
)
def test_names(names: list[str], template: str | None, expected: list[tuple[str, str]]):
    read, _ = split_names(names, template, ["size"], "x")
    seeds = read.seed if "seed" in read else [""] * len(read)
    assert list(zip(read.variant, seeds, strict=True)) == expected


HEADER = "variant,seed,benchmark,score\n"
GOOD = "gelu,1,blimp,50\ngelu,2,blimp,51\nkan,1,blimp,52\nkan,2,blimp,53\n"


@pytest.mark.parametrize(
    ("content", "reading", "message"),
    [
        (HEADER + GOOD, Request(columns=("variant=model",)), r"column in --columns variant= 'model'"),
        (HEADER + GOOD, Request(scores=("blimp",)), r"column in --scores 'blimp'"),
        (HEADER + GOOD, Request(scores=("seed",)), "leave out --scores, or write --columns score=seed"),
        (HEADER + GOOD, Request(names="{variant}-{seed}"), "say which: --columns name=COLUMN"),
        ("Variant,variant,seed,benchmark,score\na,a,1,b,1\n", Request(), "'variant' twice"),
        (HEADER + "gelu,1,blimp,50,51\n", Request(), "not a readable table.*Expected 4 fields"),
        (HEADER + "gelu,1,blimp\n", Request(), "holds a number: row 2 .empty"),
        ("Activation,seed,benchmark,score\na,1,b,1\n", Request(), "--columns variant=Activation: there"),
        ("name,loss\nfirst,1\n", Request(names="{variant}-{seed}"), "'first' does not fit --names"),
        ("name,loss\na-1,1\n", Request(names="{vriant}-{seed}"), "did you mean '{variant}'"),
        ("name,loss\na-1,1\n", Request(names="{variant}-{variant}"), "no field twice"),
        ("name,loss\na-1,1\n", Request(names="seed{seed}"), "needs {variant}"),
        ("\ufeff", Request(), "not a readable table.*No columns"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_read(tmp_path: Path, content: str, reading: Request, message: str):
    (tmp_path / "scores.csv").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=message) as told:
        read_source(tmp_path / "scores.csv", reading)
    assert "\n" not in str(told.value)


def test_flags_of_tables_are_refused_of_a_study(tmp_path: Path):
    (tmp_path / "study.yaml").touch()
    with pytest.raises(UsageError, match="--names is about a table"):
        read_source(tmp_path, Request(names="{variant}"))


# ---- Result files of other tools, each written as its documentation, or the tool itself, has them.


def write_lm_eval(folder: Path, name: str, accuracy: float, date: float = 1.0, **changes: Any) -> Path:
    """As lm-eval 0.4.13 writes it; tests/integration/test_harness.py has those that it wrote itself."""
    content = {
        "results": {
            "my_group": {"alias": "my_group", "acc,none": 0.1},
            "first": {"alias": " - first", "acc,none": accuracy, "acc_stderr,none": 0.01, "other,none": 3.0},
            "second": {"alias": " - second", "acc,none": accuracy / 2, "acc_norm,strip": accuracy},
        },
        "group_subtasks": {"my_group": ["first", "second"]},
        "configs": {}, "versions": {"first": 1.0, "second": 1.0}, "n-shot": {"first": 0, "second": 0},
        "n-samples": {"first": {"original": 10, "effective": 8}, "second": {"original": 5, "effective": 5}},
        "config": {"model": "hf", "model_args": {"pretrained": name}}, "date": date, "model_name": name,
        **changes,
    }  # fmt: skip
    path = folder / name.replace("/", "__") / f"results_2026-01-0{date:.0f}T00-00-00.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


MODELS = {"gelu-seed1": 0.5, "gelu-seed2": 0.25, "kan-seed1": 0.75, "kan-seed2": 1.0}


def test_result_files_of_several_models_are_one_table(tmp_path: Path):
    for name, accuracy in MODELS.items():
        write_lm_eval(tmp_path, name, accuracy)
    (tmp_path / "README.md").write_text("not a result")
    source = read_source(tmp_path)
    rows = source.rows[source.rows.primary & source.rows.metric.isin(["accuracy", "exact_match"])]
    found = {
        (run.variant, run.seed): sorted(of_run.score)
        for run, of_run in ((of_run.iloc[0], of_run) for _, of_run in rows.groupby("run_id"))
    }
    assert found == {
        (name.partition("-")[0], int(name[-1])): [50 * accuracy, 100 * accuracy]
        for name, accuracy in MODELS.items()
    }
    assert source.kind == "lm-eval's results"


@pytest.mark.parametrize("damage", ["cut", "empty", "binary", "emptied"])
def test_a_damaged_result_file_is_named(damage: str, tmp_path: Path):
    path = write_lm_eval(tmp_path, "gelu-seed1", 0.5)
    whole = path.read_bytes()
    emptied = _emptied(json.loads(whole))
    path.write_bytes(
        {"cut": whole[: len(whole) // 2], "empty": b"", "binary": b"\xff\x00\x81", "emptied": emptied}[damage]
    )
    with pytest.raises(UsageError, match=path.name) as told:
        read_source(path)
    assert "\n" not in str(told.value)


def _emptied(content: Any) -> bytes:
    """All keys, and nothing that a reader looks for behind them."""
    if isinstance(content, list):
        return json.dumps([{**content[0], "name": None}]).encode()
    kept = {"status", "version"}
    return json.dumps({key: value if key in kept else [] for key, value in content.items()}).encode()


def test_the_newer_of_two_measurements_counts_and_is_said(tmp_path: Path):
    write_lm_eval(tmp_path, "gelu-seed1", 0.5, date=2.0)
    write_lm_eval(tmp_path, "gelu-seed1", 0.25, date=1.0)
    source = read_source(tmp_path)
    assert set(source.rows.score[source.rows.task == "first"]) == {50.0, 3.0}
    assert "measured more than once, the last one counts: first of gelu-seed1" in "; ".join(source.notes)


def test_measurements_in_two_ways_do_not_mix(tmp_path: Path):
    write_lm_eval(tmp_path, "gelu-seed1", 0.5)
    write_lm_eval(tmp_path, "kan-seed1", 0.5, **{"n-shot": {"first": 5, "second": 0}})
    (note,) = [note for note in read_source(tmp_path).notes if note.startswith("first:")]
    assert "gelu-seed1 0 shots" in note
    assert "kan-seed1 5 shots" in note
    write_lm_eval(tmp_path, "kan-seed1", 0.5, date=2.0)
    assert not [note for note in read_source(tmp_path).notes if note.startswith("first:")]


def test_checkpoints_of_one_repository_are_models_of_their_own(tmp_path: Path):
    for step in ("step1", "step2"):
        args = {"model": "hf", "model_args": f"pretrained=me/gelu,revision={step},dtype=float32"}
        path = write_lm_eval(tmp_path / step, "me/gelu", 0.5, config=args)
        assert path.is_file()
    assert set(read_source(tmp_path).rows.variant) == {"gelu@step1", "gelu@step2"}


def test_the_groups_of_lm_eval_are_benchmarks_and_their_own_means_are_not_read(tmp_path: Path):
    rows = read_source(write_lm_eval(tmp_path, "gelu-seed1", 0.5)).rows
    assert set(rows.benchmark) == {"lm-eval-my_group"}
    assert set(rows.task) == {"first", "second"}
    assert set(rows.metric) == {"accuracy", "raw_other", "accuracy_by_length_strip"}
    assert dict(zip(rows.task, rows.n_items, strict=True)) == {"first": 8, "second": 5}


def test_which_scores_are_better_is_read_where_lm_eval_says_it(tmp_path: Path):
    """lm-eval says it by task and metric, without its filter."""
    directions = {"first": {"acc": True, "other": False}, "second": {"acc": None}}
    harness = tmp_path / "harness"
    write_lm_eval(harness, "gelu-seed1", 0.5, higher_is_better=directions)
    assert read_source(harness).declared.lower_is_better == {
        ("lm-eval-my_group", "accuracy"): False,
        ("lm-eval-my_group", "raw_other"): True,
    }


def test_models_in_folders_on_a_disk_are_called_by_those_of_their_results(tmp_path: Path):
    """``--model_args pretrained=./model`` and an output folder of each model's own."""
    for name, accuracy in MODELS.items():
        write_lm_eval(tmp_path / name, "./model", accuracy)
    source = read_source(tmp_path)
    assert {(v, s) for v, s in zip(source.rows.variant, source.rows.seed, strict=True)} == {
        ("gelu", 1), ("gelu", 2), ("kan", 1), ("kan", 2)
    }  # fmt: skip


STRAY = {
    "predictions.json": b'{"id": 1}\n{"id": 2}\n',
    "number.json": b"1" * 10_000,
    "deep.json": b"[" * 100_000,
    "binary.json": b"\xff\x00\x81",
    "list.json": b"[1, 2]",
    "._results_2026-01-01T00-00-00.json": b"\x00\x05\x16\x07",
}


@pytest.mark.parametrize("name", STRAY)
def test_odd_files_of_a_results_folder_stop_nothing(name: str, tmp_path: Path):
    write_lm_eval(tmp_path, "gelu-seed1", 0.5)
    (tmp_path / "results_of_my_study.json").mkdir()
    (tmp_path / name).write_bytes(STRAY[name])
    source = read_source(tmp_path)
    assert set(source.rows.variant) == {"gelu"}
    is_named = any(f"{name} is not JSON" in note for note in source.notes)
    assert is_named == (name not in ("list.json", "._results_2026-01-01T00-00-00.json"))
    with pytest.raises(UsageError, match=r"is not JSON|no result file"):
        read_source(tmp_path / name)


def test_scores_are_read_to_the_last_digit(tmp_path: Path):
    generator = np.random.default_rng(0)
    for seed, accuracy in enumerate(generator.random(20)):
        write_lm_eval(tmp_path, f"gelu-seed{seed}", float(accuracy))
    rows = read_source(tmp_path).rows
    first = rows[(rows.task == "first") & (rows.metric == "accuracy")].sort_values("seed")
    assert (first.score.to_numpy() == 100 * np.random.default_rng(0).random(20)).all()


def test_somebody_else_s_gelu_is_the_baseline(tmp_path: Path):
    rows = "".join(
        f"{v},{s},blimp,{50 + 3 * i + s}\n" for i, v in enumerate(("KAN", "GELU")) for s in range(3)
    )
    (tmp_path / "scores.csv").write_text(HEADER + rows)
    assert analyse(read_source(tmp_path / "scores.csv")).baseline == "GELU"
