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
from eval.report.inputs.sources import Source, read_source
from eval.results.baselines import write_baselines
from eval.results.rows import ROW_COLUMNS
from eval.results.store import ResultStore
from pretrain.run.folders import RunFolder, StudyFolder
from pretrain.run.manifest import read_completion, write_completion
from tests.cases import diagonal_is_fast
from tests.unit.eval.report.tuned_study import BEST, tune, write_study

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
        "eval/items/blimp.parquet",
        "metrics.jsonl",
        "provenance.json",
        "eval config.yaml",
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
    assert {facts.run_id: facts.eval_loss for facts in after.facts}.items() <= {
        facts.run_id: facts.eval_loss for facts in read_source(whole).facts
    }.items()
    for run_id in (SPOILED, other):
        assert [note for note in after.notes if run_id in note], after.notes


@pytest.mark.parametrize("is_kept", [False, True], ids=["a ledger that was exchanged too", "no ledger"])
def test_scores_of_another_run_are_told_by_their_rows_where_no_checksum_is_known(study, is_kept):
    exchange(study / SPOILED / "eval", study / RUNS[0] / "eval")
    for run_id in (SPOILED, RUNS[0]):
        run = RunFolder(study / run_id)
        run.completion_marker.write_text('{"step": 20, "eval_loss": 3.5}')  # from before there were checksums
        if is_kept:
            run.ledger_file.unlink()
    source = read_source(study)
    assert not set(source.rows[source.rows.benchmark == "blimp"].run_id) & {SPOILED, RUNS[0]}
    note = f"{study / SPOILED}/eval/rows.parquet is of another run, {RUNS[0]}"
    assert f"scores left out, evaluate {SPOILED} again: {note}" in source.notes


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
    "COMPLETED",
    "config.yaml",
    "provenance.json",
    "metrics.jsonl",
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


@pytest.mark.parametrize("how", CUTS)
def test_a_damaged_list_of_the_study_is_named_and_its_runs_are_reported(whole, study, how):
    damage(study / "study.yaml", how)
    after = read_source(study)
    assert numbers(after) == numbers(read_source(whole))
    said = [note for note in after.notes if note.startswith("study.yaml is")]
    assert len(said) == (0 if how == "deleted" else 1)
    assert not said or "left out" in said[0]


@pytest.mark.parametrize("how", CUTS)
def test_without_the_list_of_a_tuned_study_nothing_is_reported(tmp_path, how):
    """Its folders do not tell tuning runs from those that are compared."""
    study = write_study(tmp_path / "tuned", tune())
    assert {run.variant for run in read_source(study).facts} == set(BEST)
    damage(study / "study.yaml", how)
    with pytest.raises(
        UsageError, match=r"study\.yaml is (damaged|missing).*run the study's command again"
    ) as told:
        read_source(study)
    assert "\n" not in str(told.value)


def test_without_the_list_of_a_study_with_levels_nothing_is_reported(study):
    """A level ``kan grid_size=10`` lies in a folder that is called kan."""
    listed = yaml.safe_load((study / "study.yaml").read_text())
    levels = {run: {"variant": "kan grid_size=10" if "/kan/" in run else "gelu"} for run in RUNS}
    content = yaml.safe_dump(listed | {"levels": levels, "variants": ["gelu", "kan grid_size=10"]})
    (study / "study.yaml").write_text(content)
    assert {run.variant for run in read_source(study).facts} == {"gelu", "kan grid_size=10"}
    (study / "study.yaml").write_text(content.replace("seeds:", "seeds: ["))
    with pytest.raises(UsageError, match="alone says which runs of this study are compared, and as what"):
        read_source(study)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ({"primary": 3}, "report.primary must be a list of names, not 3"),
        ({"paired": "no"}, "report.paired must be true or false, not 'no'"),
        ({"contrasts": [1]}, "report.contrasts must be a list of names"),
        ({"baseline": ["gelu"]}, "report.baseline must be a name"),
        ([], "report must be a section of keys"),
    ],
)
def test_what_a_study_says_in_another_form_is_refused(study, report, said):
    file = study / "study.yaml"
    content = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump(content | {"report": report}))
    with pytest.raises(UsageError, match=said):
        read_source(study)


def test_outcomes_that_a_study_has_not_are_named(study):
    file = study / "study.yaml"
    report = {"margins": {"nope": 1, "blimp": 2, "held-out-loss": 0.1}, "primary": ["blimp", "none"]}
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | {"report": report}))
    assert read_source(study).notes == (
        "study.yaml: report.margins names nope, which is no outcome of this study",
        "study.yaml: report.primary names none, which is no outcome of this study",
    )


def test_a_key_that_stands_twice_is_named(study):
    file = study / "study.yaml"
    file.write_text(file.read_text() + "variants: [gelu]\n")
    (note,) = read_source(study).notes
    assert "variants is named twice" in note


@pytest.mark.parametrize("value", [0, -3])
def test_a_size_that_nothing_has_is_named_and_not_used(study, value):
    run = RunFolder(study / SPOILED)
    record = json.loads(run.provenance_file.read_text())
    flops = {"total": value, "ffn": 5}
    run.provenance_file.write_text(
        json.dumps(record | {"parameters": {"total": value}, "flops_per_token": flops})
    )
    run.completion_marker.write_text('{"step": 20, "eval_loss": 3.5}')  # from before there were checksums
    source = read_source(study)
    (facts,) = [facts for facts in source.facts if facts.run_id == SPOILED]
    assert (facts.num_parameters, facts.flops_per_token, facts.ffn_flops_per_token) == (None, None, 5)
    assert set(source.notes) == {
        f"not used, as {name} in provenance.json is {value}, while their scores count: {SPOILED}"
        for name in ("parameters", "FLOPs a token")
    }


@pytest.mark.parametrize("how", ["edited", "missing"])
def test_runs_that_only_the_list_told_apart_are_not_to_be_moved_away(study, how):
    """The list is what to mend, not the folder."""
    other = RUNS[2].replace("0a1b2c", "1a1b2c")
    write_run(study, other, 5)
    write_completion(RunFolder(study / other), {"step": 20, "eval_loss": 3.9}, other[-8:])
    file = study / "study.yaml"
    content = yaml.safe_load(file.read_text()) | {"cells": [*RUNS, other]}
    text = yaml.safe_dump(content | {"levels": {other: {"variant": "kan grid_size=10"}}})
    file.write_text(text)
    assert {run.variant for run in read_source(study).facts} == {"gelu", "kan", "kan grid_size=10"}
    file.write_text(text.replace("variant: kan grid_size=10", "variant: kan"))
    if how == "missing":
        file.unlink()
    with pytest.raises(UsageError, match=rf"study\.yaml (was|is) {how}.*run the study's command again"):
        read_source(study)
