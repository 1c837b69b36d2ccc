"""Result files as lm-eval writes them, damaged ones, and what else lies in a folder of results."""

import json
from pathlib import Path
from typing import Any

import pytest

from base.errors import UsageError
from report.inputs.sources import read_source
from report.request import Request

"""Exact in binary and in three decimals."""


def write_lm_eval(folder: Path, name: str, accuracy: float, date: float = 1.0, **changes: Any) -> Path:
    """As lm-eval 0.4.13 writes it."""
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


# Two of the scores have all the digits that a number has.
MODELS = {"gelu-seed1": 1 / 3, "gelu-seed2": 0.25, "kan-seed1": 1 / 7, "kan-seed2": 1.0}


def test_result_files_of_several_models_are_one_table(tmp_path: Path):
    for name, accuracy in MODELS.items():
        write_lm_eval(tmp_path, name, accuracy)
    (tmp_path / "README.md").write_text("not a result")
    source = read_source(tmp_path)
    rows = source.rows[source.rows.primary & source.rows.metric.isin(["accuracy", "exact_match"])]
    found = rows.groupby(["variant", "seed"]).score.apply(sorted).to_dict()
    named = {(name.partition("-")[0], int(name[-1])): accuracy for name, accuracy in MODELS.items()}
    assert found == {key: [50 * accuracy, 100 * accuracy] for key, accuracy in named.items()}
    assert source.kind == "lm-eval's results"


def test_flags_of_tables_are_refused_and_names_are_not(tmp_path: Path):
    path = write_lm_eval(tmp_path, "gelu-seed1", 0.5)
    for flags in ({"columns": ["score=acc"]}, {"scores": ["acc"]}):
        with pytest.raises(UsageError, match=f"--{next(iter(flags))} is about a table"):
            read_source(path, Request(**flags))
    assert len(read_source(path, Request(names="{variant}-seed{seed}")).rows)


@pytest.mark.parametrize("damage", ["cut", "empty", "binary", "emptied"])
def test_a_damaged_result_file_is_named(damage: str, tmp_path: Path):
    path = write_lm_eval(tmp_path, "gelu-seed1", 0.5)
    whole = path.read_bytes()
    damages = {"cut": whole[: len(whole) // 2], "empty": b"", "binary": b"\xff\x00\x81"}
    path.write_bytes((damages | {"emptied": _emptied(json.loads(whole))})[damage])
    with pytest.raises(UsageError, match=path.name):
        read_source(path)


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
    assert note.endswith("; measure all alike")
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
    harness, lower = tmp_path / "harness", {"accuracy": False, "raw_other": True}
    write_lm_eval(harness, "gelu-seed1", 0.5, higher_is_better=directions)
    told = read_source(harness).declared.lower_is_better
    assert told == {("lm-eval-my_group", name): is_lower for name, is_lower in lower.items()}


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


def test_results_of_an_lm_eval_before_0_4_are_named(tmp_path: Path):
    path = tmp_path / "gelu_s1.json"
    path.write_text('{"results": {"arc_easy": {"acc": 0.3}}, "versions": {"arc_easy": 0}, "config": {}}')
    for place in (path, tmp_path):
        with pytest.raises(
            UsageError, match=r"gelu_s1.json is not as .* of 0.4 are \(no 'configs'\); too old"
        ):
            read_source(place)
