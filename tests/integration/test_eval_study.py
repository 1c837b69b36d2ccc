"""``python -m eval STUDY``: several runs, several processes, and what happens when these are killed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from base.errors import UsageError
from eval.command import find_runs, study_config
from eval.config import EvalConfig
from eval.evaluate import choose_workers, evaluate_run, evaluate_runs

CONFIG = EvalConfig(suites=("embedded-pairs",), embedded_pairs_per_paradigm=4)


@pytest.fixture
def study(tmp_path, write_run) -> Path:
    """A study of two runs, one of each family, with untrained weights."""
    for seed, family in enumerate(("gpt_neo", "roberta"), start=1):
        write_run(tmp_path, family, "relu", seed, "two")
    section = {"evaluation": CONFIG.model_dump(mode="json")}
    (tmp_path / "two" / "study.yaml").write_text(yaml.safe_dump(section))
    return tmp_path / "two"


def results(run: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    return (
        pd.read_parquet(run / "eval" / "rows.parquet"),
        pd.read_parquet(run / "eval" / "items" / "embedded-pairs.parquet"),
    )


def forget(runs: list[Path]) -> None:
    for run in runs:
        shutil.rmtree(run / "eval")


@pytest.mark.slow
def test_workers_write_what_one_process_writes_and_a_broken_run_does_not_stop_them(study, tmp_path):
    runs, _ = find_runs([study])
    for run in runs:
        evaluate_run(run, CONFIG, progress=False)
    alone = [results(run) for run in runs]
    forget(runs)
    broken = tmp_path / "broken"
    shutil.copytree(runs[0], broken)
    (broken / "model" / "model.safetensors").write_bytes(b"broken")
    outcome = evaluate_runs([broken, *runs], CONFIG, num_workers=2, progress=False)
    for run, (rows, items) in zip(runs, alone, strict=True):
        pd.testing.assert_frame_equal(outcome.rows[run], rows)
        pd.testing.assert_frame_equal(results(run)[1], items)
    assert len(outcome.failures) == 17
    for failure in outcome.failures:
        assert failure.run_dir == broken
        assert isinstance(failure.error, UsageError)
        assert "cannot load the model" in str(failure)


def test_a_study_is_evaluated_as_its_file_says(study, tmp_path):
    assert study_config([study]) == CONFIG
    assert study_config([tmp_path]) == EvalConfig()
    (study / "study.yaml").write_text("evaluation: {suites: [blmp]}")
    with pytest.raises(
        UsageError, match=r"does not say what to evaluate: unknown value of suites.0: 'blmp'; did"
    ):
        study_config([study])


def test_a_study_names_what_is_not_trained(study, tmp_path):
    runs, notes = find_runs([study])
    assert [run.parent.parent.name for run in runs] == ["gpt_neo", "roberta"]
    assert notes == []
    shutil.rmtree(runs[0] / "model")
    trained, notes = find_runs([study])
    assert trained == runs[1:]
    assert notes == [f"{study}: left out, not trained yet: {runs[0].relative_to(study)}"]
    shutil.rmtree(runs[1] / "model")
    with pytest.raises(UsageError, match="holds 2 runs and none is trained yet"):
        find_runs([study])
    with pytest.raises(UsageError, match="no run given"):
        find_runs([])


@pytest.mark.parametrize(("num_runs", "most"), [(0, 1), (1, 1), (3, 3)])
def test_no_more_workers_than_runs(num_runs, most):
    assert 1 <= choose_workers(num_runs, "cpu") <= most
