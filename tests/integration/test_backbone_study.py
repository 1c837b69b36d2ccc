"""A study over pretrained models: nothing is trained but heads, from one command to the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml
from transformers import BertConfig, BertForMaskedLM

from eval.backbones import backbone_runs
from eval.config import EvalConfig
from eval.evaluate import evaluate_run

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


@pytest.mark.ci
def test_heads_on_pretrained_models_arrive_at_a_report(
    study: Path,
    bert: Path,
    tmp_path: Path,
    run_study: Callable[..., int],
    evaluate: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = tmp_path / "runs"
    assert run_study(study, "--runs-dir", runs, "--dry-run") == 0
    plan = capsys.readouterr().out
    assert f"  backbone  {bert} (folder)" in plan
    assert "4 cells" in plan
    assert "no training" in plan
    assert not runs.exists()

    assert run_study(study, "--runs-dir", runs) == 0
    assert "4 of 4 cells done" in capsys.readouterr().out
    names = ["tiny-bert", "gpt_neo-swish-seed3"]
    found = sorted(path.parts[-4] for path in (runs / "published/pretrained").glob("*/seed*/eval/rows.csv"))
    assert found == sorted(names * 2)
    report = json.loads((runs / "published/report/report.json").read_text())
    assert {c["contrast"] for c in report["comparisons"]} == {"fourier-kan frozen - linear frozen"}
    page = (runs / "published/report/report.md").read_text()
    assert "are seeds of fine-tuning" in page
    assert "| tiny-bert |" in page
    assert "without a score" not in page.lower()

    # The same model, named to the evaluation by hand: the same scores at the same seed.
    (by_hand,) = backbone_runs(bert, (2,), tmp_path / "hand")
    expected = evaluate_run(by_hand, EvalConfig.model_validate(EVALUATION), progress=False)
    (own,) = (runs / "published/pretrained/tiny-bert").glob("seed2-*")
    rows = pd.read_parquet(own / "eval/rows.parquet")
    keys = ["task", "metric", "head"]
    pd.testing.assert_series_equal(rows.set_index(keys)["score"], expected.set_index(keys)["score"])
    assert set(rows["family"]) == {"pretrained"}
    assert set(rows["variant"]) == {"tiny-bert"}

    assert run_study(study, "--runs-dir", runs, "--no-report") == 0
    assert "0 cells run" in capsys.readouterr().out

    bert.rename(bert.with_name("elsewhere"))
    assert evaluate(runs / "published", "--workers", 1) == 2
    told = f"{bert}, which {runs}/published/pretrained/tiny-bert/seed1-"
    assert told in capsys.readouterr().err
