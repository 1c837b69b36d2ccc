"""Updates and runs on a GPU: as on the CPU, without waiting, within memory, resumed, by two processes."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from benchmarks.gpu.measured import run_updates
from benchmarks.gpu.workload import CASES
from ffn_variants import FAMILIES, FFN_VARIANTS
from ffn_variants.devices import VISIBLE, visible_gpus
from ffn_variants.kernels.compilation import compiled_kernels_in_use
from pretrain.training.training_run import train
from tests.interrupted import train_until

EAGER = [(family, variant, False) for family in FAMILIES for variant in FFN_VARIANTS]
COMPILED = [("gpt_neo", variant, True) for variant in FFN_VARIANTS]


def kind(value: object) -> str:
    return ("compiled" if value else "eager") if isinstance(value, bool) else str(value)


@pytest.mark.parametrize(("family", "variant", "compiled"), EAGER + COMPILED, ids=kind)
def test_updates_are_those_of_the_cpu(family, variant, compiled, tiny, loops):
    """Loss and gradient norm of four updates in float32, whose order of sums alone differs."""
    flags = ["--ffn", variant, *([] if compiled else ["--train.no-torch-compile"])]
    found = followed(loops(tiny(family, *flags)))
    assert compiled_kernels_in_use() == compiled
    reference = followed(loops(tiny(family, "--ffn", variant, "--train.no-torch-compile"), on_cpu=True))
    # A token near the border between two experts goes to the other one: 0.13% of a gradient on an H100.
    np.testing.assert_allclose(found, reference, rtol=5e-3 if variant == "moe" else 1e-3)


def followed(loop, updates: int = 4) -> np.ndarray:
    """(updates, 2) loss and gradient norm of the first updates."""
    lines = []
    for number in range(updates):
        lines.append(loop._update(loop._step(number)).tolist())
        loop.state.step += 1
    assert loop.passes is None or not loop.passes.failure
    return np.array(lines)


MOVING = ("--ffn", "kan", "--splines.knot-updates", "0", "0.5", "--optim.max-steps", "8")
DROPPING = ("--model.hidden-dropout", "0.1", "--model.attention-dropout", "0.1")


@pytest.mark.parametrize("precision", ["no", "bf16"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("flags", [(), DROPPING, MOVING], ids=["plain", "dropout", "knots"])
def test_recorded_steps_are_those_of_single_launches(family, flags, precision, tiny, loops, only_cuda):
    """Four are single launches either way: two at the beginning, and two after the knots have moved."""
    flags = [*flags, "--train.mixed-precision", precision, "--train.per-device-train-batch-size", "4"]
    if family == "llama" and "--model.hidden-dropout" in flags:
        flags[:2] = []
    recorded, launched = (loops(tiny(family, *flags, *more)) for more in ([], ["--train.no-cuda-graph"]))
    np.testing.assert_allclose(followed(recorded, 8), followed(launched, 8), rtol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("variant", ["gelu", "kan", "gr-kan"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_no_update_waits_for_the_device(family, variant, compiled, tiny, loops, device):
    flags = ["--ffn", variant, *([] if compiled else ["--train.no-torch-compile"])]
    loop = loops(tiny(family, *flags, "--train.mixed-precision", "bf16"))
    run_updates(loop, 3)  # compiles, makes the moments, and records a step
    steps = [loop._step(number) for number in range(3, 6)]
    try:
        if device == "cuda":
            torch.cuda.set_sync_debug_mode("error")
        losses = [loop._update(step) for step in steps]
    finally:
        if device == "cuda":
            torch.cuda.set_sync_debug_mode("default")
    assert torch.stack(losses).isfinite().all()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_step_in_one_pass_fits_into_its_memory(case, loops, only_cuda):
    """4 GiB, and what the allocator and attention's backward pass have beside the tensors."""
    loop = loops(case.config("--train.mixed-precision", "bf16", "--train.no-cuda-graph"))
    run_updates(loop, 2)
    torch.cuda.reset_peak_memory_stats()
    run_updates(loop, 2)
    assert torch.cuda.max_memory_allocated() <= 4.5 * 2**30


def weights(path) -> dict[str, torch.Tensor]:
    return load_file(path / "model" / "model.safetensors")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_resumed_run_is_the_whole_one_up_to_rounding(family, tiny):
    """Sums over documents and embeddings are in no fixed order on a GPU; so it is not to the bit."""
    whole = weights(train(tiny(family, "--run-name", "whole")))
    config = tiny(family, "--run-name", "resumed")
    train_until(3, config)
    resumed = weights(train(config))
    for name, weight in whole.items():
        assert (resumed[name] - weight).norm() <= 1e-3 * weight.norm() + 1e-6, name


@pytest.mark.parametrize("family", FAMILIES)
def test_deterministic_runs_are_equal_to_the_bit(family, tiny):
    configs = (tiny(family, "--run-name", name, "--train.deterministic") for name in ("one", "two"))
    try:
        one, two = map(weights, map(train, configs))
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
