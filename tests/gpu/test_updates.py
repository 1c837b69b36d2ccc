"""Whole updates on a GPU: equal to the CPU's, eager and compiled, without waiting, within their memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from benchmarks.gpu.measured import run_updates
from benchmarks.gpu.workload import CASES
from ffn_variants import FAMILIES, FFN_VARIANTS
from ffn_variants.kernels.compilation import compiled_kernels_in_use

EAGER = [(family, variant, False) for family in FAMILIES for variant in FFN_VARIANTS]
COMPILED = [("gpt_neo", variant, True) for variant in FFN_VARIANTS]


def kind(value: object) -> str:
    return ("compiled" if value else "eager") if isinstance(value, bool) else str(value)


@pytest.mark.parametrize(("family", "variant", "compiled"), EAGER + COMPILED, ids=kind)
def test_updates_are_those_of_the_cpu(family, variant, compiled, tiny, loops):
    """Loss and gradient norm of four updates in float32, whose order of sums alone differs."""
    flags = ["--ffn", variant, *([] if compiled else ["--train.no-torch-compile"])]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="torch.compile failed")
        found = followed(loops(tiny(family, *flags)))
        assert compiled_kernels_in_use() == compiled
    reference = followed(loops(tiny(family, "--ffn", variant, "--train.no-torch-compile"), on_cpu=True))
    # A token near the border between two experts goes to the other one: 0.13% of a gradient on an H100.
    np.testing.assert_allclose(found, reference, rtol=5e-3 if variant == "moe" else 1e-3)


def followed(loop) -> np.ndarray:
    """(4, 2) loss and gradient norm of the first updates."""
    lines = []
    for number in range(4):
        lines.append(loop._update(loop._step(number)).tolist())
        loop.state.step += 1
    return np.array(lines)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("variant", ["gelu", "kan", "gr-kan"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_no_update_waits_for_the_device(family, variant, compiled, tiny, loops, device):
    flags = ["--ffn", variant, *([] if compiled else ["--train.no-torch-compile"])]
    loop = loops(tiny(family, *flags, "--train.mixed-precision", "bf16"))
    run_updates(loop, 2)  # compiles, and makes the moments
    steps = [loop._step(number) for number in range(2, 5)]
    if device == "cuda":
        torch.cuda.set_sync_debug_mode("error")
    try:
        losses = [loop._update(step) for step in steps]
    finally:
        if device == "cuda":
            torch.cuda.set_sync_debug_mode("default")
    assert torch.stack(losses).isfinite().all()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_step_in_one_pass_fits_into_its_memory(case, loops, only_cuda):
    """4 GiB, and what the allocator and attention's backward pass have beside the tensors."""
    loop = loops(case.config("--train.mixed-precision", "bf16"))
    run_updates(loop, 2)
    torch.cuda.reset_peak_memory_stats()
    run_updates(loop, 2)
    assert torch.cuda.max_memory_allocated() <= 4.5 * 2**30
