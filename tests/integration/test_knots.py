"""Runs whose knots move and whose coefficients are pruned: when, by which inputs, the same when resumed."""

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from ffn_variants.splines.spline_layer import sparsity_penalty, spline_layers
from ffn_variants.variants.spline_kan import FeatureSplines
from pretrain.config import ResolvedConfig
from pretrain.resolution import load_config
from pretrain.training import knots
from pretrain.training.knots import NUM_TOKENS
from pretrain.training.loop import Loop
from pretrain.training.training_run import train
from tests.cases import first_is_fast, small_run
from tests.interrupted import train_until

pytestmark = pytest.mark.ci  # its runs are shared by all of its tests

ALL = ["--splines.knot-updates", "0", "0.5", "--splines.penalty", "0.01", "--splines.prune-below", "0.2"]
SPARSE = ["--model.ffn-options", "splines", "sparse"]


@pytest.fixture
def tiny(runs_dir, request):
    """Make a small run's configuration; each test has a study of its own."""

    def _tiny(ffn: str, *flags: str) -> ResolvedConfig:
        base = small_run(
            runs_dir,
            model={"hidden_size": 16, "intermediate_size": 12, "num_hidden_layers": 1},
            optim={"max_steps": 8},
            train={"logging_steps": 1, "eval_steps": 2, "save_steps": 1},
            output={"study": re.sub(r"\W+", "-", request.node.name)},
        )
        return load_config(None, ["--ffn", ffn, *flags], base)

    return _tiny


def weights(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path / "model" / "model.safetensors")


def lines(path: Path) -> list[dict]:
    times = {"time_s", "compile_s", "tokens_per_s"}
    found = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in times} for line in found]


def after_each_step(monkeypatch, look: Callable[[Loop], None]) -> None:
    """Have a look at the loop behind every step from here on."""

    def watched(loop, step, update=Loop._update):
        result = update(loop, step)
        look(loop)
        return result

    monkeypatch.setattr(Loop, "_update", watched)


def train_killed(config, stops):
    """Train with a kill before each of some steps, and go on after each; returns the run's folder."""
    for step in stops:
        train_until(step, config)
    return train(config)


@pytest.mark.parametrize("ffn", first_is_fast(["kan", "spline-kan", "spline-activation"]))
def test_a_run_killed_at_any_step_of_the_schedule_goes_on_to_the_same_bits(tiny, ffn, monkeypatch):
    monkeypatch.setattr(knots, "NUM_TOKENS", 512)
    flags = [*SPARSE, *ALL]
    whole = train(tiny(ffn, *flags, "--run-name", "whole"))
    # Knots move before steps 0 and 4, pruning is before 6.
    path = train_killed(tiny(ffn, *flags, "--run-name", "killed"), [4, 6, 7])
    assert json.loads((path / "provenance.json").read_text())["sessions"][-1]["resumed_from_step"] == 7
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(path)[name]), name
    assert lines(path) == lines(whole)


def test_knots_move_when_they_are_told_to_and_coefficients_go_once(tiny, monkeypatch):
    grids, masks = [], []

    def look(loop):
        first = spline_layers(loop.model)[0]
        grids.append(first.grid.clone())
        masks.append(first.mask.clone())

    after_each_step(monkeypatch, look)
    path = train(tiny("kan", *SPARSE, *ALL))
    moved = [not torch.equal(a, b) for a, b in itertools.pairwise(grids)]
    assert moved == [False, False, False, True, False, False, False]
    assert (grids[0].diff(dim=1).std(1) > 1e-3).all()  # no longer even after the first step
    assert [bool(mask.all()) for mask in masks] == [True] * 6 + [False] * 2
    assert torch.equal(masks[6], masks[7])
    used = [line["knots_used"] for line in lines(path) if "eval_loss" in line]
    model = AutoModelForCausalLM.from_pretrained(path / "model")
    left = [int(layer.mask.sum()) for layer in spline_layers(model)]  # type: ignore[union-attr]
    total = sum(layer.mask.numel() for layer in spline_layers(model))  # type: ignore[union-attr]
    assert used == [total, total, total, sum(left)]
    assert 0 < sum(left) < total
    assert {line["knots"] for line in lines(path) if "eval_loss" in line} == {total}


def test_knots_are_quantiles_of_what_the_layers_get_on_the_steps_rows(tiny, monkeypatch):
    """The rows drawn and the forward pass repeated by hand."""
    checked = []

    def watched(loop, step, update=Loop._update):
        if loop.state.step != 4:
            return update(loop, step)
        layer = next(m for m in loop.model.modules() if isinstance(m, FeatureSplines))
        seen = []
        handle = layer.register_forward_pre_hook(lambda _, args: seen.append(args[0].detach()))
        split = loop.data.train
        draw = np.random.default_rng([4, loop.config.seed, 4])
        rows = draw.choice(len(split.input_ids), NUM_TOKENS // 64, replace=False)
        arrays = split.input_ids, split.position_ids
        ids, positions = (torch.from_numpy(each[rows].astype(np.int64)) for each in arrays)
        document = (positions == 0).cumsum(1)
        same = document[:, :, None] == document[:, None, :]
        mask = torch.where(same, 0.0, -1e30)[:, None]
        loop.model.set_attn_implementation("eager")
        loop.model(input_ids=ids, position_ids=positions, attention_mask=mask)
        handle.remove()
        loop.model.set_attn_implementation("packed")
        before = layer.knots.detach().clone().numpy()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop.optimizer, "step", lambda: None)
            result = update(loop, step)
        inputs = seen[0].flatten(0, 1).double().numpy()
        for i, own in enumerate(layer.knots.detach().numpy()):
            within = inputs[(inputs[:, i] >= before[i].min()) & (inputs[:, i] <= before[i].max()), i]
            above = np.sort(before[i][before[i] > np.quantile(within, 0.975)])[:4]
            levels = np.linspace(0.025, 0.975, 10 - len(above) + bool(len(above)))[: 10 - len(above)]
            wanted = [*np.quantile(within, levels), *above]
            # One input at the edge of the range, in or out by a rounding, is worth a little.
            np.testing.assert_allclose(own, wanted, atol=2e-3)
        checked.append(True)
        return result

    monkeypatch.setattr(Loop, "_update", watched)
    train(tiny("spline-kan", "--splines.knot-updates", "0.5", "--data.num-stories", "400"))
    assert checked


def test_the_optimizer_starts_anew_for_what_was_refitted_alone(tiny, monkeypatch):
    counts: list[dict[str, float]] = []

    def look(loop):
        named = loop.model.named_parameters()
        counts.append({name: float(loop.optimizer.state[p]["step"]) for name, p in named})

    after_each_step(monkeypatch, look)
    train(tiny("kan", "--splines.knot-updates", "0.5"))
    assert set(counts[3].values()) == {4}
    for name, count in counts[4].items():
        assert count == (1 if name.endswith("spline_weight") else 5), name


def test_the_gradient_of_a_step_is_that_of_loss_and_penalty(tiny, monkeypatch):
    """A run with the penalty and one without, whose weights are the same in the first step."""
    gradients, losses, added = [], [], {}

    def keep(loop, step, update=Loop._update):
        if not added:
            penalties = [0.3 * sparsity_penalty(layer) for layer in spline_layers(loop.model)]
            named = dict(loop.model.named_parameters())
            whole = sum(penalties, torch.zeros(()))
            found = torch.autograd.grad(whole, list(named.values()), allow_unused=True)
            added.update({name: g for name, g in zip(named, found, strict=True) if g is not None})
        clip = torch.nn.utils.clip_grad_norm_

        def keep_before(parameters, norm):
            gradients.append({name: p.grad.clone() for name, p in loop.model.named_parameters()})
            return clip(parameters, norm)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.nn.utils, "clip_grad_norm_", keep_before)
            return update(loop, step)

    monkeypatch.setattr(Loop, "_update", keep)
    for penalty in ("0.3", "0"):
        flags = ["--splines.penalty", penalty, "--optim.max-steps", "1"]
        path = train(tiny("kan", *flags, "--train.per-device-train-batch-size", "4"))
        losses.append(lines(path)[0]["loss"])
    with_penalty, without = gradients
    assert len(added) == 4  # two parameters of two layers
    for name, gradient in with_penalty.items():
        wanted = without[name] + added.get(name, torch.zeros(()))
        torch.testing.assert_close(gradient, wanted, atol=1e-6, rtol=1e-5)
    # The loss is reported without the penalty, so that runs with and without compare.
    assert losses[0] == losses[1]
