"""Checks of a study's folder: runs that failed, and tasks that were scored in two ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from base.run.folder_names import RunFolder
from report.inputs.study_checks import failed_notes, failed_runs, protocol_notes
from slurm.cell_state import CellState, write_state


def test_diverged_runs_are_named_with_their_step(tmp_path: Path):
    run = tmp_path / "gpt_neo" / "kan" / "seed1-abc"
    run.mkdir(parents=True)
    (run / "FAILED").write_text(json.dumps({"step": 120, "problem": "the loss is nan"}))
    said = "diverged in pretraining: gpt_neo/kan/seed1-abc (the loss is nan at step 120)"
    for run_ids in (None, frozenset({"gpt_neo/kan/seed1-abc"})):
        assert list(failed_notes(failed_runs(tmp_path, run_ids))) == [said]
    assert failed_runs(tmp_path, frozenset({"gpt_neo/kan/seed2-abc"})) == ()


def test_failed_cells_are_named_with_their_error(tmp_path: Path):
    run_id = "gpt_neo/kan/seed1-abc"
    write_state(tmp_path, run_id, CellState(name="failed", error="UsageError: no such file"))
    write_state(tmp_path, "gpt_neo/kan/seed2-abc", CellState(name="done"))
    found = failed_runs(tmp_path, None)
    assert list(failed_notes(found)) == [f"failed: {run_id} (UsageError: no such file)"]
    assert failed_runs(tmp_path, frozenset({"gpt_neo/kan/seed2-abc"})) == ()


@pytest.mark.parametrize(("seeds", "differ"), [([[1], [2]], False), ([[1], [1, 2]], True)])
def test_each_run_may_have_its_own_seed_of_finetuning(tmp_path: Path, seeds, differ):
    folders = {}
    for own in seeds:
        run_id = f"gpt_neo/gelu/seed{len(folders)}-x"
        folders[run_id] = RunFolder(tmp_path / run_id)
        folders[run_id].eval_dir.mkdir(parents=True)
        ledger = {"weights": "w", "tasks": {"glue/rte/linear": {"version": 3, "seeds": own}}}
        (tmp_path / run_id / "eval" / "done.json").write_text(json.dumps(ledger))
    assert bool(protocol_notes(folders)) == differ


def test_tasks_scored_differently_within_a_family_are_named(tmp_path: Path):
    folders = {}
    for family, seed, version in (("gpt_neo", 1, 2), ("gpt_neo", 2, 2), ("gpt_neo", 3, 1), ("roberta", 1, 9)):
        run_id = f"{family}/gelu/seed{seed}-x"
        folder = tmp_path / run_id / "eval"
        folder.mkdir(parents=True)
        protocol = {"version": version, "reduction": "sum"}
        (folder / "done.json").write_text(json.dumps({"weights": "w", "tasks": {"blimp/x": protocol}}))
        folders[run_id] = RunFolder(tmp_path / run_id)
    assert protocol_notes(folders) == [
        "scored differently in gpt_neo, version: gpt_neo/gelu/seed3-x against the other runs (blimp/x)"
    ]
