"""Whether evaluating leaks: memory and open files of one process over 500 evaluations.

    python -m benchmarks.many_evaluations

Makes an untrained run, and scores it again and again as the command eval does: model loaded, minimal pairs
scored, rows, items and ledger written. Every evaluation asks for another number of pairs than the one before,
so none finds its work done.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil
import torch

from base.errors import run_cli
from base.run.folder_names import RunFolder
from base.run.manifest import write_completion
from eval.config import EvalConfig
from eval.evaluate import _load_scorer, evaluate_run
from pretrain.data.embedded import stories
from pretrain.data.tokenizer import train_tokenizer
from pretrain.model.build import build
from pretrain.resolution import load_config
from pretrain.run.run_folder import config_hash, run_dir, write_config

SHOWN = (10, 50, 100, 200, 300, 400, 500)
"""Evaluations after which memory is looked at."""


def main(_args: Sequence[str] | None = None) -> None:
    """Run the command."""
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        path = make_run(Path(folder))
        for number in range(1, SHOWN[-1] + 1):
            config = EvalConfig(suites=("embedded-pairs",), max_pairs=2 + number % 2, device="cpu")
            evaluate_run(path, config, progress=False)
            _load_scorer.cache_clear()  # as for the next run of a study
            if number in SHOWN:
                memory_mb = process.memory_info().rss / 2**20
                print(
                    f"{number} evaluations: {memory_mb:.0f} MiB, {process.num_fds()} descriptors", flush=True
                )


def make_run(folder: Path) -> Path:
    """Write a run as training leaves it, with untrained weights."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    overrides = {"model": sizes, "data": {"num_stories": 200}, "output": {"runs_dir": str(folder)}}
    config = load_config(None, overrides=overrides)
    path = run_dir(config)
    tokenizer = train_tokenizer(iter(stories(200, 0)), 400)
    torch.manual_seed(0)
    write_config(path, config)
    build(config, len(tokenizer)).save_pretrained(RunFolder(path).model_dir)
    tokenizer.save_pretrained(RunFolder(path).model_dir)
    write_completion(RunFolder(path), {"step": 1, "eval_loss": 6.0}, config_hash(config))
    return path


if __name__ == "__main__":
    run_cli(main)
