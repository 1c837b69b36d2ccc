"""What the kernels by hand become when they are compiled, without a GPU."""

import importlib.util
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ffn_variants.kernels import triton_ops
from ffn_variants.splines.b_splines import EvenSplines, UnevenSplines

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="triton is not installed: it is for Linux only"
    ),
]
BASES: list[Any] = [EvenSplines(3, 3, -1.0, 1.0), EvenSplines(5, 3, -1.0, 1.0), EvenSplines(10, 5, -1.0, 1.0)]
BASES += [UnevenSplines(3)]


@pytest.fixture(params=[80, 90])
def capability(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Have Triton compile for a GPU that is not there."""
    triton: Any = importlib.import_module("triton")
    target = triton.backends.compiler.GPUTarget("cuda", request.param, 32)
    limits = {"max_shared_mem": 232448, "multiprocessor_count": 132, "warpSize": 32, "max_num_regs": 65536}
    driver = SimpleNamespace(
        get_current_target=lambda: target,
        get_current_device=lambda: request.param,  # each has its own kernels
        get_current_stream=lambda device=None: 0,
        utils=SimpleNamespace(get_device_properties=lambda device: limits),
    )
    monkeypatch.setattr(triton.runtime.driver, "_active", driver)
    return request.param


@pytest.mark.parametrize("basis", BASES, ids=repr)
@pytest.mark.parametrize("kind", ["features", "slopes"])
def test_every_kernel_by_hand_compiles_and_spills_nothing(capability, basis, kind, tmp_path) -> None:
    x = torch.empty(8192, 512, device="meta")
    is_even = isinstance(basis, EvenSplines)
    count = 1 + basis.grid_size + basis.spline_order if is_even else 9
    features = torch.empty(8192, count, 512, dtype=torch.bfloat16, device="meta")
    knots = ((12, 512), (3, 11, 512))
    constants = [] if is_even else [torch.empty(*sizes, device="meta") for sizes in knots]
    make = {"features": triton_ops.feature_arguments, "slopes": triton_ops.slope_arguments}[kind]
    arguments = make(x, features, *([x] if kind == "slopes" else []))
    kernel, grid, arguments, settings = triton_ops.call(kind, x, arguments, constants, basis)
    ptx = kernel.warmup(*arguments, **settings, grid=grid).asm["ptx"]
    (tmp_path / "kernel.ptx").write_text(ptx, encoding="utf-8")
    ptxas = Path(str(importlib.import_module("triton").__file__)).parent / "backends/nvidia/bin/ptxas"
    (name,) = re.findall(r"^\.target (\w+)", ptx, re.MULTILINE)
    command = [ptxas, "-v", "--gpu-name", name, tmp_path / "kernel.ptx", "-o", tmp_path / "kernel"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert 0 < int(re.findall(r"Used (\d+) registers", told)[0]) <= 128
    assert "0 bytes stack frame, 0 bytes spill stores" in told
    if kind == "features" and is_even and capability == 90:  # the interpreter does not round so
        assert "cvt.rn.bf16x2.f32" in ptx
        assert ptx.count("ld.global") == 1
