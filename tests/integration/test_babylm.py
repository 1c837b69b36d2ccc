"""The study on BabyLM, on two made texts of the same shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from base.config_input import deep_merge
from pretrain.resolution import load_config
from pretrain.run.run_folder import run_dir
from pretrain.training.training_run import train

CHILDES = "*FAT:\tdo you want the red ball ?\n*CHI:\tmore ball .\n" * 60
WIKI = "= = = April = = =\n\nApril is the fourth month of the year. It has thirty days.\n\n" * 60


def test_its_lines_are_trained_on_as_documents(tmp_path: Path, repository: Path, capsys) -> None:
    texts = {"childes": CHILDES, "simple_wiki": WIKI}
    for part in ("train_10M", "dev"):
        (tmp_path / part).mkdir()
        for name, text in texts.items():
            (tmp_path / part / f"{name}.txt").write_text(text)
    study: dict[str, Any] = yaml.safe_load((repository / "configs/studies/babylm.yaml").read_text())["config"]
    wanted = {
        name: [path for path in study["data"][name] if Path(path).stem in texts]
        for name in ("train_files", "validation_files")
    }
    assert all(len(paths) == 2 for paths in wanted.values())
    files = {
        name: [str(tmp_path / Path(path).relative_to("babylm")) for path in paths]
        for name, paths in wanted.items()
    }
    small = {
        "data": {**files, "vocab_size": 300, "block_size": 32},
        "model": {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2},
        "train": {"batch_size": 8, "per_device_train_batch_size": 8, "torch_compile": False},
        "optim": {"max_steps": 3},
        "output": {"runs_dir": str(tmp_path / "runs")},
    }
    config = load_config(repository / "configs/gpt-neo.yaml", overrides=deep_merge(study, small))
    assert config.optim.num_train_epochs == 10
    train(config)
    lines = sum(bool(line.strip()) for text in texts.values() for line in text.splitlines())
    assert f"packed {lines:,} train documents" in capsys.readouterr().out
    results = json.loads((run_dir(config) / "provenance.json").read_text())["results"]
    assert results["eval_loss"] > 0
