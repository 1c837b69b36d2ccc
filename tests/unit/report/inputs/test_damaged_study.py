"""A study with one damaged file: the report names it, and no number of another run changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from base.errors import UsageError
from base.run.folder_names import RunFolder, StudyFolder
from base.run.manifest import read_completion, write_completion
from report.inputs.sources import Source, read_source
from scores.rows import ROW_COLUMNS
from scores.store import ResultStore, write_baselines
from tests.cases import diagonal_is_fast
from tests.unit.report.tuned_study import BEST, tune, write_study

RUNS = [
    f"gpt_neo/{variant}/seed{seed}-0a1b2c{place}{seed}"
    for place, variant in enumerate(("gelu", "kan"))
    for seed in (1, 2)
]
SPOILED = RUNS[3]
CUTS = ["emptied", "halved", "zeroed", "deleted"]


def write_run(folder: Path, run_id: str, place: int) -> None:
    """A finished run with scores, as the training and the evaluation leave it."""
    run = RunFolder(folder / run_id)
    family, variant, name = run_id.split("/")
    run.model_dir.mkdir(parents=True)
    (run.model_dir / "config.json").write_text(json.dumps({"place": place}))
    seed = int(name[4])
    run.config_file.write_text(yaml.safe_dump({"family": family, "model": {"ffn": variant}, "seed": seed}))
    results = {"step": 20, "eval_loss": 3.5 + place / 7, "time_s": 60.0, "mean_tokens_per_s": 1000.0 + place}
    parameters = {"total": 500_000 + place, "ffn": 1000}
    run.provenance_file.write_text(json.dumps({"parameters": parameters, "results": results}))
    logged = [{"step": 10, "eval_loss": 4.0, "tokens": 100}, {"step": 20, "eval_loss": results["eval_loss"]}]
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in logged))
    write_completion(run, results, name[-8:])
    completion = read_completion(run)
    assert completion is not None
    generator, store = np.random.default_rng(place), ResultStore(run.path, completion.weights)
    for task in ("anaphor", "island"):
        good, bad = generator.normal(-30, 5, (2, 20))
        items = pd.DataFrame({"task": task, "pair_id": np.arange(20).astype(str), "margin": good - bad})
        items = items.assign(correct=(good > bad).astype(float), num_tokens_differing=2)
        row = [run_id, family, variant, seed, "blimp", task, "g", "accuracy", 100 * items.correct.mean(), 20]
        rows = pd.DataFrame([[*row, "", True]], columns=list(ROW_COLUMNS))
        store.record("blimp", task, {"version": 1}, rows, items)
    write_baselines(run.path, {"blimp": {"anaphor": {"accuracy": 50.0}}})


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "study"
    for place, run_id in enumerate(RUNS):
        write_run(folder, run_id, place)
    content = {"families": ["gpt_neo"], "variants": ["gelu", "kan"], "seeds": [1, 2], "benchmarks": ["blimp"]}
    content |= {"report": {"baseline": "gelu", "margin": 2.0}, "cells": RUNS}
    StudyFolder(folder).study_file.write_text(yaml.safe_dump(content, sort_keys=False))
    return folder


@pytest.fixture
def study(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "study")


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "deleted":
        path.unlink()
        return
    half = len(content) // 2
    flipped = content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
    changed = {"emptied": b"", "halved": content[:half], "zeroed": bytes(len(content)), "flipped": flipped}
    path.write_bytes(changed[how])


def numbers(source: Source, but: str = "") -> dict:
    """Everything that a report's numbers come from, of all runs but one."""
    rows = source.rows[source.rows.run_id != but].sort_values(["run_id", "benchmark", "task", "metric"])
    return {
        "rows": rows.reset_index(drop=True).to_dict("records"),
        "facts": sorted(map(repr, (facts for facts in source.facts if facts.run_id != but))),
        "baselines": source.baselines,
    }


def test_nothing_is_said_of_a_whole_study(whole):
    assert read_source(whole).notes == ()


def exchange(one: Path, other: Path) -> None:
    """Give each the other's name, as a few cp do."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@pytest.mark.parametrize(
    "names",
    [
        "eval",
        "eval/done.json",
        "eval/rows.parquet",
        "metrics.jsonl",
        "COMPLETED",
        ".",
        "eval COMPLETED",
        "eval model config.yaml provenance.json metrics.jsonl COMPLETED",
    ],
)
@pytest.mark.parametrize("other", [RUNS[2], RUNS[1]], ids=["another variant's", "another seed's"])
def test_no_number_gets_the_name_of_the_run_that_files_were_exchanged_with(whole, study, names, other):
    for name in names.split():
        exchange(study / SPOILED / name, study / other / name)
    before, after = numbers(read_source(whole)), read_source(study)
    assert [row for row in after.rows.to_dict("records") if row not in before["rows"]] == []
    known = {facts.run_id: facts for facts in read_source(whole).facts}
    for facts in after.facts:
        assert facts.eval_loss in (None, known[facts.run_id].eval_loss)
        assert facts.curve in ((), known[facts.run_id].curve)
    for run_id in (SPOILED, other):
        assert [note for note in after.notes if run_id in note], after.notes


@pytest.mark.parametrize("other", [RUNS[2], RUNS[1]], ids=["another variant's", "another seed's"])
def test_a_held_out_loss_is_not_that_of_the_run_whose_configuration_lies_beside_it(whole, study, other):
    for run_id in RUNS:
        shutil.rmtree(study / run_id / "eval")
    exchange(study / SPOILED / "config.yaml", study / other / "config.yaml")
    after = read_source(study)
    assert set(after.rows.run_id) == {*RUNS} - {SPOILED, other}
    for run_id in (SPOILED, other):
        assert [note for note in after.notes if f"run left out: {run_id} says" in note], after.notes


@pytest.mark.parametrize(("column", "value"), [("variant", "swish"), ("family", "roberta"), ("seed", 7)])
def test_rows_that_say_two_runs_are_left_out(whole, study, column, value):
    path = RunFolder(study / SPOILED).rows_file
    rows = pd.read_parquet(path)
    rows.loc[1, column] = value
    rows.to_parquet(path)
    after = read_source(study)
    assert [row for row in numbers(after)["rows"] if row not in numbers(read_source(whole))["rows"]] == []
    assert [note for note in after.notes if f"says both {SPOILED} and" in note], after.notes


def test_what_lies_beside_the_scores_of_another_run_is_not_read(whole, study):
    for run_id in RUNS:
        if run_id != SPOILED:
            (study / run_id / "eval" / "baselines.json").unlink()
    assert read_source(study).baselines == read_source(whole).baselines
    shutil.rmtree(study / SPOILED / "eval")
    shutil.copytree(whole / RUNS[0] / "eval", study / SPOILED / "eval")
    assert read_source(study).baselines == {}


OF_RUNS = [
    "eval/rows.parquet",
    "eval/rows.csv",
    "eval/done.json",
    "eval/items/blimp.parquet",
    "eval/baselines.json",
    "config.yaml",
]


@pytest.mark.parametrize(
    ("name", "how"), [*diagonal_is_fast(OF_RUNS, CUTS), ("eval/rows.parquet", "flipped")]
)
@pytest.mark.ci
def test_a_damaged_file_of_a_run_is_named_or_changes_no_number(whole, study, name, how):
    before = read_source(whole)
    damage(study / SPOILED / name, how)
    after = read_source(study)
    assert numbers(after, SPOILED) == numbers(before, SPOILED)
    named = [note for note in after.notes if SPOILED in note]
    if numbers(after) != numbers(before):
        assert named, after.notes
    assert not [note for note in after.notes if "\n" in note]


@pytest.mark.parametrize("how", ["emptied", "halved", "zeroed"])
def test_a_damaged_file_of_the_study_is_refused_in_a_line(study, how):
    damage(study / "study.yaml", how)
    with pytest.raises(UsageError, match=r"study\.yaml.*run the study's command again") as told:
        read_source(study)
    assert "\n" not in str(told.value)


def test_what_a_study_declared_is_missed_where_its_file_is_gone(study):
    state = study / "cells" / "gpt_neo--gelu--seed1-0a1b2c01.json"
    state.parent.mkdir()
    state.write_text('{"name": "done"}')
    (study / "study.yaml").unlink()
    (note,) = read_source(study).notes
    assert note.startswith("study.yaml is not there, so nothing that the study declares is used")
    state.unlink()
    assert read_source(study).notes == ()


@pytest.mark.parametrize("how", CUTS)
def test_without_the_list_of_a_tuned_study_nothing_is_reported(tmp_path, how):
    """Its folders do not tell tuning runs from those that are compared."""
    study = write_study(tmp_path / "tuned", tune())
    assert {run.variant for run in read_source(study).facts} == set(BEST)
    damage(study / "study.yaml", how)
    with pytest.raises(UsageError, match=r"study\.yaml.*run the study's command again") as told:
        read_source(study)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({"primary": 3}, "report.primary: must be a list, such as"),
        ({"paired": "no"}, "report.paired: must be true or false"),
        ({"contrasts": [1]}, "report.contrasts.0: must be text"),
        ({"baseline": ["gelu"]}, "report.baseline: must be text"),
        ([], "report: must be a mapping"),
    ],
)
def test_what_a_study_says_in_another_form_is_refused(study, report, said):
    file = study / "study.yaml"
    content = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(content | {"report": report}))
    with pytest.raises(UsageError, match=said):
        read_source(study)
