"""Runs as training leaves them, with untrained weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
import torch

from base.errors import run_cli
from eval.command import main
from pretrain.data.embedded import stories
from pretrain.data.tokenizer import train_tokenizer
from pretrain.model.build import build
from pretrain.resolution import load_config
from pretrain.run.run_folder import run_dir, write_config


@pytest.fixture(scope="session")
def tokenizer():
    return train_tokenizer(iter(stories(200, 0)), 400)


@pytest.fixture(scope="session")
def write_run(tokenizer) -> Callable[..., Path]:
    """Write the folder of a run below another folder."""

    def write(
        runs_dir: Path,
        family: str = "gpt_neo",
        ffn: str = "swish",
        seed: int = 3,
        study: str = "test",
        run_name: str | None = None,
        **model: int,
    ) -> Path:
        sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        config = load_config(
            None,
            overrides={
                "family": family,
                "seed": seed,
                "model": {"ffn": ffn, **sizes, **model},
                "data": {"block_size": 64, "num_stories": 400},  # made anew for every evaluation
                "output": {"runs_dir": str(runs_dir), "study": study, "run_name": run_name},
            },
        )
        folder = run_dir(config)
        write_config(folder, config)
        torch.manual_seed(seed)
        build(config, len(tokenizer)).save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        return folder

    return write


@pytest.fixture
def evaluate(monkeypatch) -> Callable[..., int]:
    """Call ``python -m eval`` with arguments; returns its exit status."""

    def call(*arguments: object) -> int:
        monkeypatch.setattr("sys.argv", ["eval", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_info:
            run_cli(main)
        return int(str(exit_info.value.code))

    return call


@pytest.fixture
def make_run(tmp_path, write_run) -> Callable[..., Path]:
    """Write the folder of a run below the test's own."""
    return lambda *args, **kwargs: write_run(tmp_path / "runs", *args, **kwargs)


@pytest.fixture
def write_task(tmp_path) -> Callable[..., Path]:
    """Write the YAML file of a classification task and its examples, into the test's own folder."""

    def write(name: str, rows: Mapping[str, Iterable[dict]], definition: str) -> Path:
        for split, of_split in rows.items():
            lines = "".join(json.dumps(row) + "\n" for row in of_split)
            (tmp_path / f"{split}.jsonl").write_text(lines)
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"files: {{train: train.jsonl, validation: validation.jsonl}}\n{definition}")
        return path

    return write
