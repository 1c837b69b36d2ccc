"""What a run folder tells of its learning curve, however its log was left."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml

from base.run.folder_names import RunFolder
from report.inputs.run_facts import Evaluation, read_facts
from report.inputs.sources import read_source
from tests.unit.report.parts.test_learning_curves import OF_FREQUENCIES, SEEN

RESULTS = {"step": 1000, "max_steps": 1000, "eval_loss": 2.881}


def write_run(study: Path, variant: str, seed: int, losses) -> Path:
    """A finished and unscored run as the pretraining leaves it."""
    run = RunFolder(study / "roberta" / variant / f"seed{seed}-0a1b2c3d")
    run.path.mkdir(parents=True)
    run.config_file.write_text(yaml.safe_dump({"family": "roberta", "model": {"ffn": variant}, "seed": seed}))
    record = {"flops_per_token": {"total": 1000, "ffn": 500}, "word_frequency_loss": OF_FREQUENCIES}
    run.provenance_file.write_text(json.dumps(record))
    lines = [
        {
            "step": 100 * i,
            "eval_loss": float(loss),
            "tokens": 100_000 * i,
            "time_s": 20 + 36.0 * i,
            "compile_s": 20,
        }
        for i, loss in enumerate(losses, start=1)
    ]
    lines.insert(5, lines[3] | {"eval_loss": 9.0})  # repeated after a resumption
    lines.insert(6, lines[3])
    run.metrics_file.write_text("\n".join(map(json.dumps, lines)) + '\n{"step": 1100, "eval_lo')
    run.completion_marker.write_text(json.dumps({"results": RESULTS | {"eval_loss": lines[-1]["eval_loss"]}}))
    return run.path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    for variant in ("gelu", "kan"):
        for seed, losses in enumerate(SEEN["roberta", variant], start=1):
            write_run(tmp_path / "s", variant, seed, losses)
    return tmp_path / "s"


def test_a_run_folder_tells_its_curve(study: Path):
    run = RunFolder(study / "roberta" / "kan" / "seed2-0a1b2c3d")
    facts = read_facts(run, "r")
    losses = SEEN["roberta", "kan"][1]
    assert [x.loss for x in facts.curve] == losses
    assert facts.curve[6] == Evaluation(step=700, loss=3.189, tokens=700_000, hours=pytest.approx(0.07))
    assert (facts.eval_loss, facts.word_frequency_loss) == (2.881, OF_FREQUENCIES)
    run.completion_marker.unlink()
    assert read_facts(run, "r").eval_loss is None
    run.metrics_file.write_text('{"step": 5, "eval_loss": 3.5}\n{"step": 6, "loss": 2.0}\n')
    run.provenance_file.write_text("{}")
    facts = read_facts(run, "r")
    assert (facts.curve, facts.word_frequency_loss) == ((Evaluation(5, 3.5),), None)


@pytest.mark.parametrize("loss", ["NaN", "1e400", "1" + 400 * "0", '"3"', "[" * 100_000])
def test_what_is_no_loss_is_passed_over(study: Path, loss: str):
    run = RunFolder(study / "roberta" / "kan" / "seed2-0a1b2c3d")
    run.metrics_file.write_text(f'{{"step": 5, "eval_loss": 3.5}}\n{{"step": 6, "eval_loss": {loss}}}\n')
    assert read_facts(run, "r").curve == (Evaluation(5, 3.5),)


@pytest.mark.parametrize("kept", [0, 5, 9])
def test_a_log_that_was_cut_changes_no_final_loss(study: Path, kept: int):
    run = RunFolder(study / "roberta" / "kan" / "seed2-0a1b2c3d")
    before = read_source(study)
    lines = [line for line in run.metrics_file.read_text().splitlines() if '"eval_loss"' in line]
    run.metrics_file.write_text("\n".join(lines[:kept]))
    after = read_source(study)
    pd.testing.assert_frame_equal(before.rows, after.rows)
    assert [x.eval_loss for x in after.facts] == [x.eval_loss for x in before.facts]
