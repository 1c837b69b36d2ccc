"""Every variant on a CUDA device, eager and compiled by Triton, against float64 on the CPU.

Rounding alone makes some gradients wrong by more than the limits: a value at a threshold falls on its other
side, terms of a scalar cancel. So three times the error of a CPU at the same precision is allowed as well.
"""

from __future__ import annotations

import copy
import warnings

import pytest
import torch

from ffn_variants import FFN_VARIANTS, build_ffn
from ffn_variants.kernels.compilation import compiled_kernels_in_use, use_compiled_kernels


@pytest.mark.parametrize("name", FFN_VARIANTS)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_outputs_and_gradients_are_those_of_the_cpu(name, compiled, dtype, limit, device):
    torch.manual_seed(0)
    ffn = build_ffn(name, 64, 48)
    x, grad = torch.randn(1000, 64), torch.randn(1000, 64)
    exact = _run(copy.deepcopy(ffn).double(), x.double(), grad.double(), None)
    rounded = _run(copy.deepcopy(ffn), x, grad, dtype)
    use_compiled_kernels(compiled)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="torch.compile failed")
        found = _run(ffn.to(device), x.to(device), grad.to(device), dtype)
    assert compiled_kernels_in_use() == compiled
    for ours, by_cpu, reference in zip(found, rounded, exact, strict=True):
        allowed = max(limit * reference.norm(), 3 * (by_cpu.double() - reference).norm())
        assert (ours.cpu().double() - reference).norm() <= allowed


def _run(ffn, x, grad, dtype):
    x = x.detach().requires_grad_()
    with torch.autocast(x.device.type, dtype, enabled=dtype == torch.bfloat16):
        y = ffn(x)
    return [y, *torch.autograd.grad(y, [x, *ffn.parameters()], grad.to(y.dtype))]
