"""What a run folder tells of its learning curve and of its origin, however its log was left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from base.run.folder_names import RunFolder
from report.inputs.run_facts import Evaluation, read_facts
from report.inputs.sources import read_source
from tests.unit.report.run_folders import write_run

LOSSES = (5.522, 5.331, 5.227, 5.124, 4.006, 3.446, 3.189, 3.039, 2.936, 2.881)
RECORD = {"flops_per_token": {"total": 1000, "ffn": 500}, "word_frequency_loss": 5.88}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A finished and unscored run, resumed once, whose log is torn."""
    times = [{"tokens": 100_000 * i, "time_s": 20 + 36.0 * i, "compile_s": 20} for i in range(1, 11)]
    log = [
        {"step": time["tokens"] // 1000, "eval_loss": loss, **time}
        for loss, time in zip(LOSSES, times, strict=True)
    ]
    log[5:5] = [log[3] | {"eval_loss": 9.0}, log[3]]  # repeated after a resumption
    run = write_run(tmp_path, "roberta/kan/seed2-0a1b2c3d", log, RECORD)
    with run.metrics_file.open("a") as file:
        file.write('{"step": 1100, "eval_lo')
    run.completion_marker.write_text(json.dumps({"results": {"eval_loss": LOSSES[-1]}}))
    return run


def test_a_run_folder_tells_its_curve(run: RunFolder):
    facts = read_facts(run, "r")
    assert tuple(x.loss for x in facts.curve) == LOSSES
    assert facts.curve[6] == Evaluation(step=700, loss=3.189, tokens=700_000, hours=pytest.approx(0.07))
    assert (facts.eval_loss, facts.word_frequency_loss) == (2.881, 5.88)
    assert (facts.flops_per_token, facts.ffn_flops_per_token) == (1000, 500)
    run.completion_marker.unlink()
    assert read_facts(run, "r").eval_loss is None


def test_lines_without_tokens_and_records_without_losses_tell_what_they_have(run: RunFolder):
    run.metrics_file.write_text('{"step": 5, "eval_loss": 3.5}\n{"step": 6, "loss": 2.0}\n')
    run.provenance_file.write_text("{}")
    facts = read_facts(run, "r")
    assert (facts.curve, facts.word_frequency_loss) == ((Evaluation(5, 3.5),), None)


@pytest.mark.parametrize("loss", ["NaN", "1e400", "1" + 400 * "0", '"3"', "[" * 100_000])
def test_what_is_no_loss_is_passed_over(run: RunFolder, loss: str):
    run.metrics_file.write_text(f'{{"step": 5, "eval_loss": 3.5}}\n{{"step": 6, "eval_loss": {loss}}}\n')
    assert read_facts(run, "r").curve == (Evaluation(5, 3.5),)


@pytest.mark.parametrize("num_kept", [0, 5, 9])
def test_a_log_that_was_cut_changes_no_final_loss(run: RunFolder, tmp_path: Path, num_kept: int):
    before = read_source(tmp_path)
    run.metrics_file.write_text("\n".join(run.metrics_file.read_text().splitlines()[:num_kept]))
    after = read_source(tmp_path)
    pd.testing.assert_frame_equal(before.rows, after.rows)
    assert [x.eval_loss for x in after.facts] == [x.eval_loss for x in before.facts] == [2.881]
    assert after.facts[0].curve == ()


@pytest.mark.parametrize(
    ("git", "told"),
    [
        ({"commit": "abcdef0123", "clean": True}, "commit abcdef0"),
        ({"commit": "abcdef0123", "clean": False}, "commit abcdef0 with uncommitted changes"),
        ({"commit": None, "clean": None}, "ffn-ablations 0.1.0"),
    ],
)
def test_code_is_named_by_its_commit_and_without_one_by_its_version(
    tmp_path: Path, git: dict[str, Any], told: str
):
    session = {"versions": {"torch": "2.13.0", "ffn-ablations": "0.1.0"}, "git": git}
    run = write_run(tmp_path, "f/gelu/seed1-0", record={"sessions": [{}, session], "device": "cpu"})
    assert read_facts(run, "r").trained_with == f"torch 2.13.0, {told}, on cpu"
