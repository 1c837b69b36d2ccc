"""The folders of runs and studies: their names, what is found in them, and damage that is told."""

import hashlib
import os
import time
from pathlib import Path

import pytest
import yaml

from base.files import ABANDONED_S, FileState, damage, remove_leftovers
from base.run.folder_names import Inside, RunFolder, StudyFolder
from base.run.manifest import read_completion, write_completion
from tests.cases import run_damage

# The folders of runs and studies: names as they stand on people's disks, and what is found by them.
SAVED_NAMES = yaml.safe_load(Path(__file__).with_name("saved_names.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("kind", "names"), [(RunFolder, SAVED_NAMES["run"]), (StudyFolder, SAVED_NAMES["study"])]
)
def test_names_are_those_of_saved_folders(kind, names, tmp_path):
    assert {name for name, value in vars(kind).items() if isinstance(value, Inside)} == names.keys()
    folder = kind(tmp_path)
    for name, place in names.items():
        assert getattr(folder, name) == tmp_path / place


def test_what_is_in_a_run(tmp_path):
    run = RunFolder(tmp_path)
    marks = {
        "is_run": "config.yaml",
        "has_marker": "COMPLETED",
        "has_diverged": "FAILED",
        "has_model": "model/config.json",
        "is_backbone": "backbone.yaml",
        "is_scored": "eval/rows.parquet",
    }
    for question, name in marks.items():
        assert not getattr(run, question)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        assert getattr(run, question)
    run.items_dir.mkdir()
    for path in (run.items_file("blimp"), run.rows_csv_file, run.ledger_file):
        path.touch()
    found = {path.relative_to(tmp_path).as_posix() for path in run.score_files()}
    assert found == {"eval/rows.parquet", "eval/rows.csv", "eval/items/blimp.parquet"}


@pytest.mark.parametrize("place", ["runs/thesis", "thesis", "/data/runs/thesis"])
def test_a_run_knows_its_study_and_a_study_its_runs(place):
    study = StudyFolder(Path(place))
    run = study.run("gpt_neo/kan/seed3-1a2b3c4d")
    assert run.path == Path(place, "gpt_neo", "kan", "seed3-1a2b3c4d")
    assert run.run_id == "gpt_neo/kan/seed3-1a2b3c4d"
    assert run.study == study


def test_a_study_finds_runs_whatever_they_are_called(tmp_path):
    for name in ("gpt_neo/kan/seed3-1a2b3c4d", "gpt_neo/kan/mine", "t5/gelu/seed1", "code/0a1b2c3d/eval"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("report/figures/forest.svg", "cells/x.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    study = StudyFolder(tmp_path)
    kan = ["gpt_neo/kan/mine", "gpt_neo/kan/seed3-1a2b3c4d"]
    assert [run.run_id for run in study.run_folders()] == ["code/0a1b2c3d/eval", *kan, "t5/gelu/seed1"]
    assert [run.run_id for run in study.run_folders("gpt_neo", "kan")] == kan
    assert StudyFolder(tmp_path / "absent").run_folders() == []


def test_files_of_cells_are_found_by_the_ids_they_were_written_under(tmp_path):
    study = StudyFolder(tmp_path)
    ids = ["gpt_neo/fourier-kan/my--own", "roberta/gelu/seed1-0a1b2c3d"]
    study.cells_dir.mkdir()
    for run_id in ids:
        study.cell_file(run_id).touch()
    assert study.cell_file(ids[1]) == tmp_path / "cells" / "roberta--gelu--seed1-0a1b2c3d.json"
    study.cell_lock_file(ids[0]).touch()
    assert study.cell_files() == {run_id: study.cell_file(run_id) for run_id in ids}


# What a finished training left: every change of a file is told, and nothing else.
RESULTS = {"step": 10, "eval_loss": 3.25}


@pytest.fixture
def run(tmp_path) -> RunFolder:
    run = RunFolder(tmp_path / "study" / "gpt_neo" / "gelu" / "mine")
    run.model_dir.mkdir(parents=True)
    for path in (run.config_file, run.model_dir / "config.json", run.model_dir / "model.safetensors"):
        path.write_bytes(path.name.encode() * 10)
    write_completion(run, RESULTS, "1234abcd")
    return run


def test_states_are_sizes_and_checksums(run):
    completion = read_completion(run)
    assert (completion.results, completion.config_hash) == (RESULTS, "1234abcd")
    assert set(completion.files) == {"model/model.safetensors", "model/config.json"}
    for name, state in completion.files.items():
        content = (run.path / name).read_bytes()
        assert state == FileState(len(content), hashlib.sha256(content).hexdigest())
    assert run_damage(run) == {}


@pytest.mark.parametrize("name", ["model/config.json", "model/model.safetensors"])
def test_each_damage_of_each_file_is_told(run, name):
    path = run.path / name
    whole = path.read_bytes()
    for content, wrong in (
        (b"", f"has 0 bytes, and had {len(whole)}"),
        (whole[: len(whole) // 2], f"has {len(whole) // 2} bytes, and had {len(whole)}"),
        (bytes(len(whole)), "has other content than when it was written"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "has other content than when it was written"),
    ):
        path.write_bytes(content)
        assert run_damage(run) == {name: wrong}
    path.unlink()
    assert run_damage(run) == {name: "is gone"}
    path.mkdir()
    assert name in run_damage(run)
    path.rmdir()
    path.write_bytes(whole)
    assert run_damage(run) == {}


def test_content_is_looked_at_once_and_sizes_always(run, monkeypatch):
    read = []
    monkeypatch.setattr("base.files.sha256_of", lambda path: read.append(path) or "0" * 64)
    states = read_completion(run).files
    names = ["model/config.json"]
    path = run.path / names[0]
    os.utime(path, (1, 1))  # as if nobody had read it yet
    for _ in range(3):
        damage(run.path, {name: states[name] for name in names})
    assert read == [path]
    path.write_bytes(b"short")
    assert damage(run.path, {name: states[name] for name in names}) == {
        "model/config.json": "has 5 bytes, and had 110"
    }


# What killed processes left behind.
def test_what_killed_processes_left_goes(tmp_path):
    (tmp_path / "model.tmp-12").mkdir()
    (tmp_path / "model.tmp-12" / "config.json").touch()
    kept = [tmp_path / name for name in ("a.json", "a.json.broken", "inside/b.json.tmp-12")]
    for path in [*kept, tmp_path / "a.json.tmp-12"]:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    remove_leftovers(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    assert not (tmp_path / "model.tmp-12").exists()


def test_where_others_may_write_only_what_is_old_goes(tmp_path):
    old, new = tmp_path / "a.tmp-1", tmp_path / "b.tmp-2"
    for path in (old, new):
        path.touch()
    long_ago = time.time() - ABANDONED_S - 60
    os.utime(old, (long_ago, long_ago))
    remove_leftovers(tmp_path, ABANDONED_S)
    assert (old.exists(), new.exists()) == (False, True)
