"""Noticing a run that diverges, and finding the layer."""

from __future__ import annotations

import json
import math

import pytest
import torch

from base.errors import UsageError
from pretrain.config import RunConfig
from pretrain.resolution import load_config
from pretrain.run.run_dir import run_dir
from pretrain.training.diagnosis import layer_of, read_failure
from pretrain.training.health import find_problem
from pretrain.training.loop import Loop
from pretrain.training.train import train


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
        ([2.0, math.nan], [1.0, 1.0], (8, "the loss is nan")),
        ([2.0, 3.0], [math.inf, 1.0], (7, "the norm of the gradient is inf")),
        ([2.0, 50.0], [1.0, 1.0], (8, "the loss is 26 and had to stay below 20")),
        ([2.0, 30.0], [1.0, 1.0], None),  # one bad batch is none yet
    ],
)
def test_find_problem(losses, norms, expected):
    assert find_problem(losses, norms, step=8, limit=20.0) == expected


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("transformer.h.1.mlp.c_fc.weight", "layer 1"),
        ("roberta.encoder.layer.11.output.dense.bias", "layer 11"),
        ("transformer.wte.weight", "wte"),
        ("encoder.block.1.layer.0.SelfAttention.q.weight", "encoder layer 1"),
        ("decoder.block.0.layer.2.DenseReluDense.wo.weight", "decoder layer 0"),
        ("lm_head.layer_norm.bias", "layer_norm"),
    ],
)
def test_layer_of(name, layer):
    assert layer_of(name) == layer


@pytest.mark.parametrize("save_steps", [3, 100])
@pytest.mark.ci
def test_the_gradients_named_are_those_of_the_bad_step(tiny, monkeypatch, save_steps):
    """Step 7 spoilt in one layer: noticed at step 8, found again from a checkpoint or from the start."""
    seen: dict[int, list[float]] = {}

    def spoil(loop, step, update=Loop._update):
        done = loop.state.step
        layer = loop.model.base_model.h[1].mlp
        grads: dict[str, float] = {}
        handles = [
            parameter.register_post_accumulate_grad_hook(
                lambda p, name=name: grads.__setitem__(name, float(p.grad.norm()) ** 2)
            )
            for name, parameter in layer.named_parameters()
        ]
        factor = 1e30 if done == 6 else 1.0
        handles.append(layer.register_full_backward_pre_hook(lambda _, grad: (grad[0] * factor,)))
        result = update(loop, step)
        for handle in handles:
            handle.remove()
        seen.setdefault(done + 1, []).append(math.sqrt(sum(grads.values())))
        return result * torch.tensor([math.nan if done == 6 else 1.0, 1.0])

    monkeypatch.setattr(Loop, "_update", spoil)
    config = tiny("--train.save-steps", str(save_steps))
    with pytest.raises(UsageError, match="the loss is nan at step 7; lower"):
        train(config)
    path = run_dir(config)
    record = json.loads((path / "FAILED").read_text())
    assert record["last_good_checkpoint"] == ("step_0000006" if save_steps == 3 else None)
    first, again = seen[7]
    assert first == again > 1e20
    assert float(record["grad_norms"]["layer 1"]) >= first
    assert set(seen) == set(range(1, 9))
    assert [len(seen[step]) for step in (1, 6)] == ([1, 1] if save_steps == 3 else [2, 2])
    assert not list(path.glob("checkpoints/step_0000009"))
    assert "the loss is nan at step 7" in str(read_failure(path))


def test_a_loss_that_explodes_without_leaving_the_numbers_stops_the_run(tiny):
    flags = ["--optim.learning-rate", "20", "--optim.max-steps", "40"]
    with pytest.raises(UsageError, match=r"the loss is \S+ and had to stay below 22\.\d+ at step \d+; lower"):
        train(tiny(*flags))


def test_a_checkpoint_never_holds_what_is_not_finite(tiny, monkeypatch):
    """Weights spoilt between two logged lines, with a checkpoint due at every step."""

    def spoil(loop, step, update=Loop._update):
        result = update(loop, step)
        if loop.state.step == 5:
            loop.model.get_input_embeddings().weight.data[3, 3] = math.inf
        return result

    monkeypatch.setattr(Loop, "_update", spoil)
    with pytest.raises(UsageError, match="the last good checkpoint is step_0000005"):
        train(tiny("--train.save-steps", "1"))


def test_an_unreadable_marker_still_stops_a_repetition(tmp_path):
    assert read_failure(tmp_path) is None
    (tmp_path / "FAILED").write_text("{")
    assert "failed: its marker cannot be read" in str(read_failure(tmp_path))


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
