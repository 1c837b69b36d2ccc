"""The Triton kernels of the bases, in Triton's interpreter, against the bases themselves in float64.

What the interpreter cannot show: the few units in the last place that a GPU's own exponential, division and
sine differ from numpy's, the rounding to bf16 (the interpreter cuts off), and whether the kernels are fast.
"""

import functools
import importlib
import importlib.util
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ffn_variants.kernels import triton_ops
from ffn_variants.kernels.compilation import UnsupportedError
from ffn_variants.splines.b_splines import EvenSplines, UnevenSplines, knot_reciprocals

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed: it has wheels for Linux only"
)
TOLERANCE = 1e-5
AWKWARD = (math.nan, math.inf, -math.inf, 1e30, -1e30, 1e-30, -0.0, 100.0, -100.0, 1e38)


@dataclass(frozen=True)
class Case:
    """A basis and the inputs to try it on.

    Attributes:
        basis: The oracle, in float64.
        grid_size: Of uneven splines, whose basis does not know it; else 0.
        inputs: I.
        dtype: Of x, the features and their gradient.
        transposed: Whether the inputs of a row, and of a knot, are not neighbours in memory.
    """

    basis: EvenSplines | UnevenSplines
    grid_size: int = 0
    inputs: int = 40
    dtype: torch.dtype = torch.float32
    transposed: bool = False

    def tensors(self) -> tuple[Tensor, Tensor, list[Tensor]]:
        """x, the gradient of the features, and the constants; the same each time."""
        generator = torch.Generator().manual_seed(self.inputs + self.grid_size)
        shape = (self.inputs, 2) if self.transposed else (2, self.inputs)
        x = 1.5 * torch.randn(shape, generator=generator)
        x = x.t() if self.transposed else x
        x[0, : len(AWKWARD)] = torch.tensor(AWKWARD)
        constants = self.constants(generator)
        if constants:
            knots = constants[0]
            x[1, : len(knots)] = knots.diagonal()[: self.inputs]  # at knots, coinciding ones too
        elif self.basis.spline_order > 1:  # a line has no slope at a knot
            x[1, :3] = torch.tensor([-1.0, 0.0, 1.0])
        count = len(self.basis(x.double(), *(c.double() for c in constants))[0])
        grad = torch.randn((2, count, self.inputs), generator=generator)
        return x.to(self.dtype), grad.to(self.dtype), constants

    def constants(self, generator: torch.Generator) -> list[Tensor]:
        """Knots of which some coincide, with their reciprocals; nothing for the other bases."""
        if not isinstance(self.basis, UnevenSplines):
            return []
        order = self.basis.spline_order
        knots = torch.randn((self.grid_size + 2 * order + 1, self.inputs), generator=generator).sort(0).values
        knots[1, ::3] = knots[0, ::3]
        knots[order + 1, ::4] = knots[order, ::4]
        knots[-1, ::5] = knots[-2, ::5]
        knots[:, 7] = knots[0, 7]  # one input whose knots are all the same
        return [knots.t().contiguous().t() if self.transposed else knots, knot_reciprocals(knots, order)]

    def expected(self) -> tuple[Tensor, Tensor]:
        """Features and gradient of x in float64, of the same numbers."""
        x, grad, constants = self.tensors()
        exact = [c.double() for c in constants]
        if isinstance(self.basis, UnevenSplines):
            exact[1] = knot_reciprocals(exact[0], self.basis.spline_order)
        value, pull_back = torch.func.vjp(lambda x: self.basis(x, *exact), x.double())  # type: ignore[bad-unpacking]
        return value, pull_back(grad.double())[0]


CASES = [
    Case(EvenSplines(10, 3, -1.0, 1.0)),
    *(Case(EvenSplines(4, order, -0.7, 2.3)) for order in (1, 5)),
    Case(EvenSplines(3, 3, -1.0, 1.0), dtype=torch.bfloat16),
    Case(EvenSplines(2, 2, -1.0, 1.0), inputs=triton_ops.MAX_BLOCK + 6),
    Case(UnevenSplines(1), 1),
    Case(UnevenSplines(2), 3, transposed=True),
]


def interpret(cases: list[Case], folder: Path) -> dict[str, Any]:
    """What the kernels make of all cases, in one other process."""
    inputs = [(case.basis, *case.tensors()) for case in cases]
    torch.save(inputs, folder / "cases.pt")
    program = Path(__file__).with_name("triton_program.py")
    result = subprocess.run(
        [sys.executable, program, folder / "cases.pt", folder / "results.pt"],
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert result.returncode == 0, result.stderr
    return torch.load(folder / "results.pt")


def assert_equal(found: Tensor, wanted: Tensor, case: str) -> None:
    """Within the tolerance of the size of the values, and of their dtype; NaN and infinity as they were."""
    relative = TOLERANCE if found.dtype == torch.float32 else torch.finfo(found.dtype).eps
    wanted = wanted.to(torch.float32)  # beyond its range, infinity is right
    usual = wanted[wanted.abs() < 1e4]  # what is not one of the awkward inputs passed on
    absolute = TOLERANCE * max(1.0, usual.abs().max().item())
    torch.testing.assert_close(
        found.float(),
        wanted,
        atol=absolute,
        rtol=relative,
        equal_nan=True,
        msg=lambda text: f"{case}: {text}",
    )


@pytest.mark.ci
def test_features_and_slopes_are_those_of_the_basis(tmp_path):
    results = interpret(CASES, tmp_path)
    assert results["imported early"] is False  # on a CPU, by what computes without kernels
    for case, found in zip(CASES, results["cases"], strict=True):
        for each, wanted in zip(found, case.expected(), strict=True):
            assert_equal(each, wanted, str(case))


def test_only_the_projects_own_bases_have_kernels():
    class Mine(EvenSplines):
        pass

    assert triton_ops.triton_kernels(EvenSplines(3, 3, -1.0, 1.0)) is not None
    assert triton_ops.triton_kernels(Mine(3, 3, -1.0, 1.0)) is None
    assert triton_ops.triton_kernels(torch.stack) is None


class Kernel:
    """Stands in for one of Triton, as none starts without a GPU: it does one thing at its launch."""

    def __init__(self, launch: Callable[[], None]):
        self.launch = launch

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[[], None]:
        return self.launch


def build_with_triton(source: str) -> None:
    """Compile a launcher, as a kernel's first launch does."""
    importlib.import_module("triton.runtime.build").compile_module_from_src(source, "launcher")


@pytest.mark.parametrize(
    ("compiler", "said"), [("", "Failed to find C compiler"), ("false", "non-zero"), ("/no", "no|false")]
)
def test_a_failure_of_the_c_compiler_is_one_of_compiling(compiler, said, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    if compiler:
        monkeypatch.setenv("CC", compiler)
    else:
        monkeypatch.delenv("CC", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
    kernel = Kernel(functools.partial(build_with_triton, "int x;"))
    with pytest.raises(UnsupportedError, match=f"^Triton: .*({said})"):
        triton_ops.start(kernel, (1,), (), {}, on=torch.ones(1))


@pytest.mark.parametrize("error", [RuntimeError("Triton Error [CUDA]: out of memory"), MemoryError()])
def test_an_error_at_the_launch_of_a_kernel_is_raised_as_it_is(error):
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        triton_ops.start(Kernel(fail), (1,), (), {}, on=torch.ones(1))
    assert raised.value is error


def test_a_triton_that_cannot_be_imported_is_a_failure_of_compiling(monkeypatch):
    def broken(name: str) -> None:
        raise ImportError("libtriton.so: undefined symbol")

    monkeypatch.setattr(importlib, "import_module", broken)
    x = torch.zeros(2, 3)
    with pytest.raises(UnsupportedError, match="Triton: libtriton"):
        triton_ops._kernels.__wrapped__()
    triton_ops._kernels.cache_clear()
    basis = EvenSplines(3, 3, -1.0, 1.0)
    with pytest.raises(UnsupportedError):
        triton_ops.call("features", x, triton_ops.feature_arguments(x, torch.zeros(2, 7, 3)), (), basis)
