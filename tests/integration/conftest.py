"""Runs as training leaves them, with untrained weights."""

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from base.config_input import deep_merge
from base.errors import run_cli
from eval.command import main
from pretrain.data.embedded import stories
from pretrain.data.tokenizer import train_tokenizer
from pretrain.model.build import build
from pretrain.resolution import load_config
from pretrain.run.run_folder import run_dir, write_config
from slurm import run_study as running
from slurm.commands import study_run
from slurm.study.cells import Cell
from slurm.worker import run_cells
from tests.cases import FEW_TASKS


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of runs, so that all tests of a file share the packed corpus."""
    return tmp_path_factory.mktemp("runs")


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


@pytest.fixture(scope="session")
def write_study() -> Callable[..., Path]:
    """Write the file of a study whose runs take a second; what is given replaces what stands here."""

    def write(folder: Path, **changes: Any) -> Path:
        content = {
            "name": "study",
            "families": {"gpt_neo": "tiny"},
            "variants": ["gelu", "relu"],
            "seeds": [1, 2],
            "config": {
                "model": {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2},
                "data": {"num_stories": 200, "vocab_size": 400},
                "optim": {"max_steps": 4},
                "train": {"save_steps": 2, "logging_steps": 1, "torch_compile": False},
                "output": {"runs_dir": str(folder / "runs")},
            },
            "evaluation": {"suites": ["embedded-pairs"], "pair_tasks": FEW_TASKS, "max_pairs": 4},
        }
        path = folder / "study.yaml"
        path.write_text(yaml.safe_dump(deep_merge(content, changes), sort_keys=False), encoding="utf-8")
        return path

    return write


class InThisProcess:
    """Runs the cells of a study here, where everything is imported."""

    def __init__(self, *_: object) -> None:
        pass

    def run(self, batches: Iterable[Sequence[Cell]]) -> None:
        for cells in batches:
            run_cells(cells)


@pytest.fixture(scope="session")
def run_study() -> Callable[..., int]:
    """Call ``ffn-ablations study run``, whose cells run in this process; returns its exit status."""

    def call(*words: object) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(running, "LocalRunner", InThisProcess)
            return study_run([*map(str, words)])

    return call


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


@pytest.fixture
def mount() -> Iterator[Callable[[Path, str], None]]:
    """Put a memory disk with some options in a folder's place, or give the one that is there others."""
    mounted: list[Path] = []

    def _mount(folder: Path, options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        kind = ["-o", f"remount,{options}"] if folder in mounted else ["-t", "tmpfs", "-o", options, "tmpfs"]
        done = subprocess.run(["mount", *kind, str(folder)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        mounted.append(folder)

    yield _mount
    for folder in set(mounted):
        subprocess.run(["umount", str(folder)], check=True)
