"""A step recorded as a CUDA graph against the same steps launched one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pretrain.resolution import load_config
from pretrain.training.train import train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SMALL = [
    *("--data.num-stories", "200", "--data.vocab-size", "300", "--data.block-size", "64"),
    *("--optim.max-steps", "12", "--train.logging-steps", "1", "--train.save-steps", "8"),
    "--train.deterministic",
]


def losses(path: Path) -> list[float]:
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


@pytest.mark.parametrize(
    "flags",
    [
        ["--family", "gpt_neo", "--ffn", "kan"],
        ["--family", "roberta"],
        ["--family", "roberta", "--train.per-device-train-batch-size", "5"],
        ["--family", "t5", "--optim.optimizer", "adafactor", "--optim.learning-rate", "0.01"],
        ["--family", "gpt_neo", "--ffn", "kan", "--splines.knot-updates", "0.5"],
    ],
    ids=["gpt_neo", "roberta", "accumulated", "t5", "knots"],
)
def test_replayed_steps_are_those_launched_one_by_one(tmp_path, flags):
    """With dropout: a replay draws by the seed that is set before it."""
    one_by_one, replayed = (
        train(load_config(None, [*SMALL, *flags, "--runs-dir", str(tmp_path), *more]))
        for more in (["--run-name", "eager"], ["--run-name", "graph", "--train.cuda-graph"])
    )
    assert losses(replayed) == pytest.approx(losses(one_by_one), abs=1e-4)
    ours, theirs = (load_file(path / "model" / "model.safetensors") for path in (replayed, one_by_one))
    for name, weights in theirs.items():
        assert (ours[name] - weights).norm() <= 1e-3 * weights.norm() + 1e-6
