"""Whole runs on a GPU: resumed, and by two processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from ffn_variants import FAMILIES
from ffn_variants.models.devices import VISIBLE, visible_gpus
from pretrain.training.loop import Loop
from pretrain.training.training_run import train


def weights(path) -> dict[str, torch.Tensor]:
    return load_file(path / "model" / "model.safetensors")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_resumed_run_is_the_whole_one_up_to_rounding(family, tiny, monkeypatch):
    """Sums over documents and embeddings are in no fixed order on a GPU; so it is not to the bit."""
    whole = weights(train(tiny(family, "--run-name", "whole")))
    config = tiny(family, "--run-name", "resumed")

    def interrupt(loop, step, update=Loop._update):
        if loop.state.step == 3:
            raise KeyboardInterrupt
        return update(loop, step)

    with monkeypatch.context() as patched:
        patched.setattr(Loop, "_update", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(config)
    resumed = weights(train(config))
    for name, weight in whole.items():
        assert (resumed[name] - weight).norm() <= 1e-3 * weight.norm() + 1e-6, name


@pytest.mark.parametrize("family", FAMILIES)
def test_deterministic_runs_are_equal_to_the_bit(family, tiny):
    try:
        one, two = (
            weights(train(tiny(family, "--run-name", name, "--train.deterministic")))
            for name in ("one", "two")
        )
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(two[name], weight) for name, weight in one.items())


@pytest.mark.parametrize("family", FAMILIES)
def test_two_processes_train_as_one_does(family, tmp_path, repository, device):
    """By NCCL, on two GPUs; on a CPU by Gloo. Epsilon is large, as small gradients are mostly rounding."""
    if device == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    flags = ["--family", family, "--runs-dir", str(tmp_path), "--data.num-stories", "150"]
    flags += ["--data.vocab-size", "300", "--data.block-size", "64", "--optim.max-steps", "6"]
    flags += ["--optim.adam-epsilon", "1e-3", "--model.hidden-dropout", "0", "--model.attention-dropout", "0"]
    flags += ["--train.no-torch-compile", "--train.mixed-precision", "no", "--train.batch-size", "8"]
    environment = {**os.environ, **({"ACCELERATE_USE_CPU": "true"} if device == "cpu" else {})}
    script = str(repository / "pretrain" / "train.py")
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    one_gpu = {**environment, **({VISIBLE: visible_gpus()[0]} if device == "cuda" else {})}
    for name, call, env in (("one", [sys.executable], one_gpu), ("two", launch, environment)):
        ended = subprocess.run(
            [*call, script, *flags, "--run-name", name], env=env, capture_output=True, text=True, timeout=300
        )
        assert ended.returncode == 0, ended.stderr
    one, two = (weights(tmp_path / "default" / family / "gelu" / name) for name in ("one", "two"))
    for name, weight in one.items():
        assert (two[name] - weight).norm() <= 1e-4 * weight.norm() + 1e-6, name
