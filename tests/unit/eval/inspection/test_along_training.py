"""Effective rank, dead channels and the steadiness of a training against plain numpy and planted series."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from eval.inspection.along_training import effective_rank, gradient_course, last_step, stability


def test_effective_rank_is_that_of_numpys_singular_values():
    values = torch.randn(300, 12, generator=torch.Generator().manual_seed(0)) * torch.linspace(0.1, 3, 12) + 5
    sizes = np.linalg.svd(values.double().numpy() - values.double().numpy().mean(0), compute_uv=False)
    shares = sizes / sizes.sum()
    assert effective_rank(values) == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), rel=1e-6)


def test_effective_rank_of_planted_outputs():
    line = torch.randn(200, 1) @ torch.randn(1, 8)
    assert effective_rank(line) == pytest.approx(1, abs=1e-3)
    assert effective_rank(torch.linalg.qr(torch.randn(400, 401))[0][:, :8] - 0) == pytest.approx(8, rel=0.05)
    assert effective_rank(torch.full((50, 8), 3.0)) == 0.0


def course(norms, losses=None) -> dict[str, list[float]]:
    steps = list(range(len(norms)))
    return {
        "step": steps,
        "mean": list(norms),
        "largest": list(norms),
        "loss": list(losses or np.linspace(6, 3, len(norms))),
    }


def test_a_slow_fall_is_steady_and_noise_has_its_own_spread():
    assert stability(course(np.geomspace(10, 0.1, 400)))["gradient_spread"] == pytest.approx(0, abs=1e-9)
    rng = np.random.default_rng(0)
    noise = 10 ** (np.linspace(1, -1, 20_000) + rng.normal(0, 0.2, 20_000))
    assert stability(course(noise))["gradient_spread"] == pytest.approx(0.2, rel=0.02)


def test_the_largest_gradient_and_spikes_are_found_and_the_warm_up_is_not():
    rng = np.random.default_rng(1)
    norms, losses = np.ones(500), list(np.linspace(6, 3, 500) + rng.normal(0, 0.01, 500))
    norms[300], norms[10] = 7, 90  # the latter in the first tenth
    for place in (100, 250, 400):
        losses[place] += 1
    found = stability(course(norms, losses))
    assert found["largest_gradient"] == pytest.approx(7)
    assert found["loss_spikes"] == pytest.approx(1000 * 3 / (450 - 10), rel=0.35)
    quiet = stability(course(np.ones(500), list(np.linspace(6, 3, 500) + rng.normal(0, 0.01, 500))))
    assert quiet["loss_spikes"] <= 5


def test_too_few_lines_say_nothing(tmp_path):
    assert stability(course(np.ones(10))) == {}
    assert stability(course([])) == {}
    assert gradient_course(tmp_path / "absent.jsonl")["step"] == []
    assert last_step(tmp_path / "absent.jsonl") == 0


def test_lines_are_read_as_far_as_they_are_whole(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = [{"step": 5, "loss": 4.0, "grad_norm": 1.0, "grad_norm_max": 2.0}, {"step": 10, "eval_loss": 3.5},
             {"step": 15, "loss": 3.0, "grad_norm": 0.5, "grad_norm_max": 0.6}]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, lines)) + '\n[1]\n{"step": 20, "lo')
    assert gradient_course(path) == {"step": [5, 15], "mean": [1, 0.5], "largest": [2, 0.6], "loss": [4, 3]}
    assert last_step(path) == 15
