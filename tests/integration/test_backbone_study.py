"""A study over pretrained models: nothing is trained but heads, from one command to the report."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from transformers import BertConfig, BertForMaskedLM

from eval.backbones import backbone_runs
from eval.config import EvalConfig
from eval.evaluate import evaluate_run
from tests.processes import run_command

EVALUATION = {
    "suites": ["embedded-glue"],
    "finetune": {
        "head": ["linear frozen", "fourier-kan frozen"],
        "num_train_epochs": 2,
        "max_train_examples": 64,
        "max_validation_examples": 24,
        "learning_rate": 0.01,
    },
}


@pytest.fixture
def bert(tmp_path: Path, tokenizer) -> Path:
    """A model that is none of this project's."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, pad_token_id=0, **sizes)
    folder = tmp_path / "models/tiny-bert"
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def study(tmp_path: Path, bert: Path, write_run) -> Path:
    own = write_run(tmp_path / "other", study="own")
    content = {
        "name": "published",
        "backbones": [str(bert), str(own)],
        "seeds": [1, 2],
        "evaluation": EVALUATION,
        "report": {"factor": "head", "baseline": "linear frozen"},
    }
    path = tmp_path / "published.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def slurm(command: str, *args: object):
    return run_command(f"slurm.{command}", *args, timeout_s=280)


@pytest.mark.ci
def test_heads_on_pretrained_models_arrive_at_a_report(study: Path, bert: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    plan = slurm("submit", study, "--runs-dir", runs, "--dry-run")
    assert plan.returncode == 0, plan.stderr
    assert f"  backbone  {bert} (folder)" in plan.stdout
    assert "4 cells" in plan.stdout
    assert "no training" in plan.stdout
    assert not runs.exists()

    # In one job: every job starts a Python with all its imports.
    done = slurm("submit", study, "--runs-dir", runs, "--workers", 1, "--cells-per-job", 4)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 4 cells done" in done.stdout
    names = ["tiny-bert", "gpt_neo-swish-seed3"]
    found = sorted(path.parts[-4] for path in (runs / "published/pretrained").glob("*/seed*/eval/rows.csv"))
    assert found == sorted(names * 2)
    report = json.loads((runs / "published/report/report.json").read_text())
    assert {c["contrast"] for c in report["comparisons"]} == {"fourier-kan frozen - linear frozen"}
    page = (runs / "published/report/report.md").read_text()
    assert "are seeds of fine-tuning" in page
    assert "| tiny-bert |" in page
    assert "without a score" not in page.lower()
    status = slurm("status", study, "--runs-dir", runs)
    assert "4 cells: 4 done" in status.stdout

    # The same model, named to the evaluation by hand: the same scores at the same seed.
    (by_hand,) = backbone_runs(bert, (2,), tmp_path / "hand")
    expected = evaluate_run(by_hand, EvalConfig.model_validate(EVALUATION), progress=False)
    (own,) = (runs / "published/pretrained/tiny-bert").glob("seed2-*")
    rows = pd.read_parquet(own / "eval/rows.parquet")
    keys = ["task", "metric", "head"]
    pd.testing.assert_series_equal(rows.set_index(keys)["score"], expected.set_index(keys)["score"])
    assert set(rows["family"]) == {"pretrained"}
    assert set(rows["variant"]) == {"tiny-bert"}

    again = slurm("submit", study, "--runs-dir", runs, "--workers", 1)
    assert "0 cells run" in again.stdout

    bert.rename(bert.with_name("elsewhere"))
    gone = run_command("eval", runs / "published", timeout_s=280)
    assert "Traceback" not in gone.stderr
    assert f"{bert}, which {runs}/published/pretrained/tiny-bert/seed1-" in gone.stderr
