"""The folders of runs and studies: names as they stand on people's disks, and what is found by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from base.run.folder_names import Inside, RunFolder, StudyFolder

# Written out once more: renaming one of these loses what earlier versions wrote.
RUN_NAMES = {
    "config_file": "config.yaml",
    "provenance_file": "provenance.json",
    "metrics_file": "metrics.jsonl",
    "checkpoints_dir": "checkpoints",
    "logs_dir": "logs",
    "variant_file": "variant.py",
    "model_dir": "model",
    "completion_marker": "COMPLETED",
    "failure_marker": "FAILED",
    "archive_marker": "ARCHIVED",
    "lock_file": ".lock",
    "backbone_file": "backbone.yaml",
    "eval_dir": "eval",
    "rows_file": "eval/rows.parquet",
    "items_dir": "eval/items",
    "ledger_file": "eval/done.json",
    "rows_csv_file": "eval/rows.csv",
    "baselines_file": "eval/baselines.json",
    "classifiers_dir": "eval/classifiers",
    "explanations_dir": "eval/explanations",
}
STUDY_NAMES = {
    "study_file": "study.yaml",
    "code_dir": "code",
    "jobs_dir": "jobs",
    "cells_dir": "cells",
    "submit_lock_file": ".submit.lock",
    "inspection_dir": "inspection",
    "report_dir": "report",
    "report_file": "report/report.md",
    "decisions_file": "decisions.json",
    "tuning_file": "tuning.json",
    "status_page": "status/status.html",
}


@pytest.mark.parametrize(("kind", "names"), [(RunFolder, RUN_NAMES), (StudyFolder, STUDY_NAMES)])
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
