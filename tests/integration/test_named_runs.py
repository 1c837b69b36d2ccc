"""Runs with a name of their user's, ``--run-name``: scored, reported and shown like any others."""

from __future__ import annotations

import json
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
from pretrain import train
from report import command as report
from report.inputs.sources import read_source
from scores.rows import read_rows, write_rows

TINY = [
    *("--data.num-stories", "150", "--data.vocab-size", "300", "--data.block-size", "64"),
    *("--model.hidden-size", "16", "--model.intermediate-size", "16", "--model.num-attention-heads", "2"),
    *("--optim.max-steps", "2", "--train.no-torch-compile", "--seed", "1"),
]
QUICK = ("--suites", "embedded-pairs", "--max-pairs", "4")


@pytest.mark.ci
def test_named_and_other_runs_arrive_at_one_report(tmp_path, repository, evaluate, monkeypatch):
    """By the commands as a user gives them."""

    def call(main, *words: object) -> None:
        monkeypatch.setattr("sys.argv", ["command", *map(str, words)])
        assert not main()

    base, study = repository / "configs" / "tiny.yaml", tmp_path / "own"
    flags = (base, *TINY, "--runs-dir", tmp_path, "--study", "own")
    call(train.main, *flags, "--ffn", "gelu", "--run-name", "my-first")
    call(train.main, *flags, "--ffn", "relu")
    (other,) = study.glob("gpt_neo/relu/seed1-*")
    assert evaluate(study, *QUICK) == 0
    rows = read_rows(study / "gpt_neo" / "gelu" / "my-first" / "eval" / "rows.parquet")
    assert set(rows["run_id"]) == {"gpt_neo/gelu/my-first"}
    call(report.main, study)
    numbers = json.loads((study / "report" / "report.json").read_text())
    means, losses = (
        {arm["variant"]: arm["mean"] for arm in numbers["scores"] if arm["benchmark"] == benchmark}
        for benchmark in ("embedded-pairs", "held-out-loss")
    )
    scores = read_rows(other / "eval" / "rows.parquet")["score"]
    assert means == pytest.approx({"gelu": rows["score"].mean(), "relu": scores.mean()})
    # Read from their folders.
    assert losses == {run.variant: run.eval_loss for run in read_source(study).facts}
    assert len(losses) == 2


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


@pytest.mark.slow
def test_runs_are_told_by_their_names(named):
    source = read_source(named)
    ids = ["gpt_neo/gelu/a-first", *(run.run_id for run in source.facts if run.seed == 2)]
    assert sorted(set(source.rows["run_id"])) == [*ids, "gpt_neo/relu/seed-of-doubt"]
    assert source.notes == ()


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


@pytest.mark.parametrize("name", ["a/b", "..", "/tmp/a"])
def test_a_name_is_that_of_one_folder(name, tmp_path, monkeypatch):
    """A run deeper in a study would be found by nobody."""
    monkeypatch.setattr("sys.argv", ["train.py", "--runs-dir", str(tmp_path / "runs"), "--run-name", name])
    with pytest.raises(UsageError, match="cannot name a folder"):
        train.main()
    assert not (tmp_path / "runs").exists()
