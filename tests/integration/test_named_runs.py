"""Runs with a name of their user's, ``--run-name``: scored, reported and shown like any others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from base.errors import UsageError
from base.run.folder_names import RunFolder
from base.run.manifest import write_completion
from eval.command import find_runs
from eval.config import EvalConfig
from eval.evaluate import evaluate_runs
from report.inputs.sources import read_source
from scores.rows import read_rows, write_rows

QUICK = ("--suites", "embedded-pairs", "--max-pairs", "4")


@pytest.fixture(scope="module")
def scored(tmp_path_factory, write_run) -> Path:
    """A study of two named runs and one other, scored; returns its folder."""
    runs_dir = tmp_path_factory.mktemp("runs")
    for ffn, seed, name in (("gelu", 1, "a-first"), ("gelu", 2, None), ("relu", 1, "seed-of-doubt")):
        folder = write_run(runs_dir, ffn=ffn, seed=seed, run_name=name)
        write_completion(RunFolder(folder), {}, "")
    runs, notes = find_runs([runs_dir / "test"])
    config = EvalConfig(suites=("embedded-pairs",), max_pairs=4)
    outcome = evaluate_runs(runs, config, num_workers=1, progress=False)
    assert (len(outcome.rows), outcome.failures, notes) == (3, [], [])
    return runs_dir / "test"


@pytest.fixture
def named(scored, tmp_path) -> Path:
    """A copy of that study."""
    return shutil.copytree(scored, tmp_path / "test")


@pytest.mark.ci
def test_rows_of_earlier_versions_are_those_of_the_run_they_lie_in(named):
    """They called a named run as if it had no name."""
    expected = read_source(named).rows
    run = RunFolder(named / "gpt_neo" / "gelu" / "a-first")
    write_rows(read_rows(run.rows_file).assign(run_id="gpt_neo/gelu/seed1-0a1b2c3d"), run.rows_file)
    pd.testing.assert_frame_equal(read_source(named).rows, expected)


def test_two_runs_of_one_seed_are_refused_by_their_names(named):
    shutil.copytree(named / "gpt_neo" / "gelu" / "a-first", named / "gpt_neo" / "gelu" / "again")
    with pytest.raises(UsageError, match=r"2 runs \(gpt_neo/gelu/a-first, gpt_neo/gelu/again\)"):
        read_source(named)


def test_a_run_outside_of_any_study_is_scored_by_its_path(named, tmp_path, evaluate):
    alone = tmp_path / "elsewhere"
    shutil.move(named / "gpt_neo" / "relu" / "seed-of-doubt", alone)
    scores = read_rows(alone / "eval" / "rows.parquet")
    shutil.rmtree(alone / "eval")
    assert evaluate(alone, *QUICK) == 0
    pd.testing.assert_frame_equal(read_rows(alone / "eval" / "rows.parquet"), scores)
    with pytest.raises(UsageError, match="it is one run: give its study's folder"):
        read_source(alone)
    assert find_runs([alone]) == ([alone], [])
