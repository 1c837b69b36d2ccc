"""A study with one damaged file: the report names it, and no number of another run changes."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from base.errors import UsageError
from base.run.folder_names import RunFolder
from base.run.manifest import read_completion, write_completion
from report.inputs.sources import Source, read_source
from scores.rows import ROW_COLUMNS
from scores.store import Measured, ResultStore, write_baselines
from tests.cases import diagonal_is_fast, spoil
from tests.unit.report.studies import write_plan, write_run
from tests.unit.report.tuned_study import BEST, tune, write_study

RUNS = [
    f"gpt_neo/{ffn}/seed{s}-0a1b2c{place}{s}" for place, ffn in enumerate(("gelu", "kan")) for s in (1, 2)
]
SPOILED = RUNS[3]
CUTS = ["emptied", "halved", "zeroed", "deleted", "of another form"]


def write_scored_run(folder: Path, run_id: str, place: int) -> None:
    """A finished run with scores, as the training and the evaluation leave it."""
    family, variant, name = run_id.split("/")
    results = {"step": 20, "eval_loss": 3.5 + place / 7, "time_s": 60.0, "mean_tokens_per_s": 1000.0 + place}
    log = [{"step": 10, "eval_loss": 4.0, "tokens": 100}, {"step": 20, "eval_loss": results["eval_loss"]}]
    record = {"parameters": {"total": 500_000 + place, "ffn": 1000}, "results": results}
    run = write_run(folder, run_id, log, record)
    run.model_dir.mkdir()
    (run.model_dir / "config.json").write_text(json.dumps({"place": place}))
    write_completion(run, results, name[-8:])
    completion = read_completion(run)
    generator, store = np.random.default_rng(place), ResultStore(run.path, completion.weights)
    for task in ("anaphor", "island"):
        good, bad = generator.normal(-30, 5, (2, 20))
        items = pd.DataFrame({"task": task, "pair_id": np.arange(20).astype(str), "margin": good - bad})
        items = items.assign(correct=(good > bad).astype(float), num_tokens_differing=2)
        score = 100 * items.correct.mean()
        row = (run_id, family, variant, int(name[4]), "blimp", task, "g", "accuracy", score, 20, "", True)
        rows = pd.DataFrame([row], columns=list(ROW_COLUMNS))
        store.record(Measured("blimp", task, {"version": 1}, rows, items))
    write_baselines(run.path, {"blimp": {"anaphor": {"accuracy": 50.0}}})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "study"
    for place, run_id in enumerate(RUNS):
        write_scored_run(folder, run_id, place)
    asked = {"baseline": "gelu", "margin": 2.0}
    return write_plan(folder, RUNS, benchmarks=["blimp"], report=asked)


@pytest.fixture(scope="module")
def before(whole: Path) -> Source:
    return read_source(whole)


@pytest.fixture
def study(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "study")


def numbers(source: Source, but: str = "") -> dict:
    """Everything that a report's numbers come from, of all runs but one."""
    rows = source.rows[source.rows.run_id != but].sort_values(["run_id", "benchmark", "task", "metric"])
    return {
        "rows": rows.reset_index(drop=True).to_dict("records"),
        "facts": sorted(map(repr, (facts for facts in source.facts if facts.run_id != but))),
        "baselines": source.baselines,
    }


def test_nothing_is_said_of_a_whole_study(before: Source):
    assert before.notes == ()


def assert_no_row_is_new(after: Source, before: Source) -> None:
    known = before.rows.to_dict("records")
    assert [row for row in after.rows.to_dict("records") if row not in known] == []


def exchange(one: Path, other: Path) -> None:
    """Give each the other's name, as a few cp do."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


NAMES = ["eval", "eval/done.json", "eval/rows.parquet", "metrics.jsonl", "COMPLETED", ".", "eval COMPLETED"]
"""Files and folders that are exchanged together."""


@pytest.mark.parametrize(("names", "other"), diagonal_is_fast(NAMES, [RUNS[2], RUNS[1]]))
def test_no_number_gets_the_name_of_the_run_that_files_were_exchanged_with(before, study, names, other):
    for name in names.split():
        exchange(study / SPOILED / name, study / other / name)
    after = read_source(study)
    assert_no_row_is_new(after, before)
    known = {facts.run_id: facts for facts in before.facts}
    for facts in after.facts:
        assert facts.eval_loss in (None, known[facts.run_id].eval_loss)
        assert facts.curve in ((), known[facts.run_id].curve)
    for run_id in (SPOILED, other):
        assert [note for note in after.notes if run_id in note], after.notes


@pytest.mark.parametrize("other", [RUNS[2], RUNS[1]], ids=["another seed's", "another variant's"])
def test_a_held_out_loss_is_not_that_of_the_run_whose_configuration_lies_beside_it(study: Path, other: str):
    for run_id in RUNS:
        shutil.rmtree(study / run_id / "eval")
    exchange(study / SPOILED / "config.yaml", study / other / "config.yaml")
    after = read_source(study)
    assert set(after.rows.run_id) == {*RUNS} - {SPOILED, other}
    for run_id in (SPOILED, other):
        assert [note for note in after.notes if f"run left out: {run_id} says" in note], after.notes


@pytest.mark.parametrize(("column", "value"), [("variant", "swish"), ("family", "roberta"), ("seed", 7)])
def test_rows_that_say_two_runs_are_left_out(before: Source, study: Path, column: str, value: object):
    path = RunFolder(study / SPOILED).rows_file
    rows = pd.read_parquet(path)
    rows.loc[1, column] = value
    rows.to_parquet(path)
    after = read_source(study)
    assert_no_row_is_new(after, before)
    assert [note for note in after.notes if f"says both {SPOILED} and" in note], after.notes


def test_what_lies_beside_the_scores_of_another_run_is_not_read(before: Source, whole: Path, study: Path):
    for run_id in RUNS:
        if run_id != SPOILED:
            (study / run_id / "eval" / "baselines.json").unlink()
    assert read_source(study).baselines == before.baselines
    shutil.rmtree(study / SPOILED / "eval")
    shutil.copytree(whole / RUNS[0] / "eval", study / SPOILED / "eval")
    assert read_source(study).baselines == {}


OF_RUNS = ["eval/rows.parquet", "eval/rows.csv", "eval/done.json"]
OF_RUNS += ["eval/items/blimp.parquet", "eval/baselines.json", "config.yaml"]


@pytest.mark.parametrize(
    ("name", "how"), [*diagonal_is_fast(OF_RUNS, CUTS), ("eval/rows.parquet", "flipped")]
)
def test_a_damaged_file_of_a_run_is_named_or_changes_no_number(before, study, name, how):
    spoil(study / SPOILED / name, how)
    after = read_source(study)
    assert numbers(after, SPOILED) == numbers(before, SPOILED)
    if numbers(after) != numbers(before):
        assert [note for note in after.notes if SPOILED in note], after.notes
    assert not [note for note in after.notes if "\n" in note]


def test_scores_that_cannot_be_read_are_named_and_the_loss_of_their_run_is_kept(study: Path):
    run = RunFolder(study / SPOILED)
    spoil(run.rows_file, "of another form")
    damaged = read_source(study)
    assert set(damaged.rows[damaged.rows.run_id == SPOILED].benchmark) == {"held-out-loss"}
    assert [x for x in damaged.notes if x.startswith(f"scores left out, evaluate {SPOILED} again")]
    run.config_file.unlink()
    unknown = read_source(study)
    assert SPOILED not in set(unknown.rows.run_id)
    assert [x for x in unknown.notes if x.startswith("run left out: ") and SPOILED in x]


@pytest.mark.parametrize("how", ["emptied", "halved", "zeroed"])
def test_a_damaged_file_of_the_study_is_refused_in_a_line(study: Path, how: str):
    spoil(study / "study.yaml", how)
    with pytest.raises(UsageError, match=r"study\.yaml.*run the study's command again"):
        read_source(study)


def test_what_a_study_declared_is_missed_where_its_file_is_gone(study: Path):
    state = study / "cells" / "gpt_neo--gelu--seed1-0a1b2c01.json"
    state.parent.mkdir()
    state.write_text('{"name": "done"}')
    (study / "study.yaml").unlink()
    (note,) = read_source(study).notes
    assert note.startswith("study.yaml is not there, so nothing that the study declares is used")
    state.unlink()
    assert read_source(study).notes == ()


def test_without_the_list_of_a_tuned_study_nothing_is_reported(tmp_path: Path):
    """Its folders do not tell tuning runs from those that are compared."""
    study = write_study(tmp_path / "tuned", tune())
    assert {run.variant for run in read_source(study).facts} == set(BEST)
    (study / "study.yaml").unlink()
    with pytest.raises(UsageError, match=r"study\.yaml.*run the study's command again"):
        read_source(study)
