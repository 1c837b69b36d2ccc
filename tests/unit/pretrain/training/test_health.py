"""Noticing a run that diverges."""

from __future__ import annotations

import json
import math

import pytest
import torch

from base.errors import UsageError
from pretrain.config import RunConfig
from pretrain.resolution import load_config
from pretrain.run.run_folder import run_dir
from pretrain.training.loop import Loop
from pretrain.training.stopping import describe_failure, find_problem
from pretrain.training.training_run import train


@pytest.fixture
def tiny(tmp_path):
    def _tiny(*flags: str) -> RunConfig:
        base = {
            "model": {"hidden_size": 32, "intermediate_size": 32},
            "data": {"num_stories": 60, "vocab_size": 300, "block_size": 64},
            "optim": {"learning_rate": 0.01, "max_steps": 12},
            "train": {"batch_size": 4, "torch_compile": False, "logging_steps": 4},
            "output": {"runs_dir": str(tmp_path), "run_name": "r"},
        }
        return load_config(None, list(flags), base)

    return _tiny


@pytest.mark.parametrize(
    ("losses", "norms", "expected"),
    [
        ([2.0, 3.0], [1.0, 9.0], None),
        ([], [], None),
        ([2.0, math.nan], [1.0, 1.5], "the loss is nan and the norm of the gradient 1.5 at step 8"),
        ([2.0, 3.0], [math.inf, 1.0], "the loss is 2 and the norm of the gradient inf at step 7"),
        ([2.0, 50.0], [7.0, 1.0], "26 and had to stay below 20, with gradients of a norm up to 7, at step 8"),
        ([2.0, 30.0], [1.0, 1.0], None),  # one bad batch is none yet
    ],
)
def test_find_problem(losses, norms, expected):
    problem = find_problem(losses, norms, step=8, limit=20.0)
    assert problem is None if expected is None else str(problem).endswith(expected)


@pytest.mark.parametrize("save_steps", [3, 100])
def test_step_norm_and_checkpoint_are_named_and_kept(tiny, monkeypatch, save_steps):
    """Step 7 spoilt, noticed at step 8, where a line is logged."""

    def spoil(loop, step, update=Loop._update):
        return update(loop, step) * torch.tensor([math.nan if loop.state.step == 6 else 1.0, 0.0])

    monkeypatch.setattr(Loop, "_update", spoil)
    config = tiny("--train.save-steps", str(save_steps))
    newest = "step_0000006" if save_steps == 3 else None
    problem = "the loss is nan and the norm of the gradient 0"
    with pytest.raises(UsageError, match=f"{problem} at step 7; lower .* from {newest or 'the beginning'}$"):
        train(config)
    path = run_dir(config)
    record = json.loads((path / "FAILED").read_text())
    assert record == {"step": 7, "problem": problem, "last_good_checkpoint": newest}
    with pytest.raises(
        UsageError, match=f"failed: {problem} at step 7; .* from {newest or 'the beginning'}$"
    ):
        train(config)


def test_weights_that_are_no_numbers_replace_no_checkpoint(tiny, monkeypatch):
    """The losses up to a checkpoint are finite, and the update behind the last of them is not."""

    def spoil(loop, step, update=Loop._update):
        result = update(loop, step)
        if loop.state.step == 5:
            next(loop.model.parameters()).data[0] = math.nan
        return result

    monkeypatch.setattr(Loop, "_update", spoil)
    with pytest.raises(UsageError, match=r"from step_0000003$"):
        train(tiny("--train.save-steps", "3"))


def test_a_loss_that_explodes_without_leaving_the_numbers_stops_the_run(tiny):
    flags = ["--optim.learning-rate", "20", "--optim.max-steps", "40"]
    with pytest.raises(
        UsageError, match=r"the loss is \S+ and had to stay below 22\.\d+, .* at step \d+; lower"
    ):
        train(tiny(*flags))


def test_an_unreadable_marker_still_stops_a_repetition(tmp_path):
    assert describe_failure(tmp_path) is None
    (tmp_path / "FAILED").write_text("{")
    assert "failed: its marker cannot be read" in str(describe_failure(tmp_path))


@pytest.mark.ci
def test_metrics_have_mean_and_maximum_of_the_gradient_norms(tiny):
    each, four = (train(tiny("--train.logging-steps", steps, "--run-name", steps)) for steps in ("1", "4"))
    norms, lines = (
        [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines() if '"loss"' in line]
        for path in (each, four)
    )
    for number, line in enumerate(lines):
        window = [single["grad_norm"] for single in norms[4 * number : 4 * number + 4]]
        assert line["grad_norm"] == pytest.approx(sum(window) / 4, rel=1e-6)
        assert line["grad_norm_max"] == max(window)
