"""What each fused function becomes on a GPU: launches, temporaries, registers, stack and spills.

Imported by ``benchmarks.gpu.kernels``, once the process has a pretend device.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from benchmarks.gpu import inductor
from benchmarks.gpu.inductor import ROWS, Shape, written
from ffn_variants.kernels import basis_linear, elementwise, triton_ops
from ffn_variants.splines.b_splines import EvenSplines, UnevenSplines
from ffn_variants.variants import learned_curves, spline_kan
from ffn_variants.variants.bump_kan import GaussianBasis
from ffn_variants.variants.series_kan import ChebyshevBasis, FourierBasis
from pretrain.model import linear_cross_entropy

F32, BF16, INT64 = torch.float32, torch.bfloat16, torch.int64
CAPABILITIES = (80, 90)
INPUTS, VOCABULARY = 512, 10_000
Argument = tuple[Shape, torch.dtype]


@dataclass(frozen=True)
class Resources:
    """Of one kernel on one GPU, as ptxas tells them.

    Attributes:
        registers: Of a thread; 255 at most.
        stack: Bytes of a thread in local memory, the slow path of sine and cosine among them.
        spills: Bytes written to the stack for want of registers.
    """

    registers: int
    stack: int
    spills: int


@dataclass(frozen=True)
class Row:
    """One function by one backend.

    Attributes:
        function: Its name.
        backend: ``"Triton"`` for a kernel by hand, ``"Inductor"``.
        launches: Kernels of a call.
        temporaries: Shape and dtype, as ``(rows, 512) float32``, of what it keeps in device memory beside its
            arguments and results.
        resources: The worst over its kernels and the tiles that Inductor would try, by capability.
    """

    function: str
    backend: str
    launches: int
    temporaries: tuple[str, ...]
    resources: dict[int, Resources]

    def markdown(self) -> str:
        """The row of a table."""
        kept = "; ".join(f"{n} x {each}" if n > 1 else each for each, n in Counter(self.temporaries).items())
        figures = [self.resources[capability] for capability in CAPABILITIES]
        columns = (
            " / ".join(str(value) for value in values)
            for values in zip(*((each.registers, each.stack, each.spills) for each in figures), strict=True)
        )
        about = (self.function, self.backend, str(self.launches), kept or "none", *columns)
        return f"| {' | '.join(about)} |"


HEADER = (
    "| function | by | launches | temporaries | registers, sm_80 / sm_90 | stack, bytes | spills, bytes |\n"
    "| --- | --- | --: | --- | --: | --: | --: |"
)


@dataclass(frozen=True)
class BasisCase:
    """A basis and how it is used.

    Attributes:
        name: For the table.
        basis: As ``basis_linear`` takes it.
        count: K, features of an input.
        constants: Their shapes.
    """

    name: str
    basis: Any
    count: int
    constants: tuple[Shape, ...] = ()

    def arguments(self, kind: str, inputs: int = INPUTS) -> list[Argument]:
        """Inputs in float32, features in bf16, as under autocast; ``kind`` is ``features`` or ``slopes``."""
        x, features = (("rows", inputs), F32), (("rows", self.count, inputs), BF16)
        return [x, features, *([x] if kind == "slopes" else []), *((shape, F32) for shape in self.constants)]


BASES = (
    *(
        BasisCase(f"kan grid {grid} order {order}", EvenSplines(grid, order, -1.0, 1.0), 1 + grid + order)
        for grid, order in ((3, 3), (5, 3), (10, 5))
    ),
    *(
        BasisCase(
            f"kan grid {grid} order 3, uneven knots",
            UnevenSplines(3),
            4 + grid,
            ((grid + 7, INPUTS), (3, grid + 6, INPUTS)),
        )
        for grid in (3, 5)
    ),
    BasisCase("fourier-kan grid 5", FourierBasis(5), 10),
    BasisCase("cheby-kan degree 4", ChebyshevBasis(4), 5),
    BasisCase("rbf-kan grid 8", GaussianBasis(8), 8),
)


def by_hand(case: BasisCase, kind: str) -> Row:
    """Compile the kernel that this project brings, as its first launch would."""
    return _compiled_row(f"{case.name}, {kind}", functools.partial(ptx_by_hand, case, kind))


def ptx_by_hand(case: BasisCase, kind: str, capability: int) -> str:
    """Its code for a GPU."""
    tensors = [
        torch.empty([ROWS if size == "rows" else size for size in shape], dtype=dtype, device="meta")
        for shape, dtype in case.arguments(kind)
    ]
    used = 3 if kind == "slopes" else 2
    make = triton_ops.slope_arguments if kind == "slopes" else triton_ops.feature_arguments
    call = triton_ops.call(kind, tensors[0], make(*tensors[:used]), tensors[used:], case.basis)
    return _ptx(*call, capability=capability)


def _compiled_row(name: str, ptx: Callable[[int], str]) -> Row:
    return Row(
        name, "Triton", 1, (), {capability: _resources(ptx(capability)) for capability in CAPABILITIES}
    )


def _ptx(kernel: Any, grid: Any, arguments: Any, settings: dict[str, Any], capability: int) -> str:
    with inductor.target(capability):
        return kernel.warmup(*arguments, **settings, grid=grid).asm["ptx"]


def by_inductor(name: str, function: Callable[..., Any], *arguments: Argument) -> Row:
    """Have Inductor write its kernels and compile them."""
    code = written(inspect.unwrap(function), *arguments)
    figures: dict[int, list[Resources]] = {capability: [] for capability in CAPABILITIES}
    for source, options in code.configurations():
        for capability in CAPABILITIES:
            target = GPUTarget("cuda", capability, 32)
            binary = triton.compile(source, target=target, options=options)
            figures[capability].append(_resources(binary.asm["ptx"]))
    resources = {capability: _worst(each) for capability, each in figures.items()}
    return Row(name, "Inductor", code.launches, tuple(code.temporaries()), resources)


def _worst(resources: list[Resources]) -> Resources:
    return Resources(
        max(each.registers for each in resources),
        max(each.stack for each in resources),
        max(each.spills for each in resources),
    )


def _resources(ptx: str) -> Resources:
    """Have ptxas, which Triton brings, assemble the code for the GPU that it was written for."""
    target = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)
    assert target
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx, encoding="utf-8")
        told = subprocess.run(
            [_ptxas(), "-v", "--gpu-name", target[1], source, "-o", source.with_suffix(".cubin")],
            capture_output=True,
            text=True,
            check=True,
        ).stderr
    registers = re.search(r"Used (\d+) registers", told)
    stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", told)
    if not registers or not stack:
        raise RuntimeError(f"ptxas told no resources: {told}")
    return Resources(int(registers[1]), int(stack[1]), int(stack[2]))


@functools.cache
def _ptxas() -> str:
    return str(Path(triton.__file__).parent / "backends/nvidia/bin/ptxas")


def rows(only: str = "") -> Iterator[Row]:
    """Compile everything whose name has ``only`` in it, one after the other."""
    for name, make in {**_basis_rows(), **_other_rows()}.items():
        if only in name:
            yield make()


def _basis_rows() -> dict[str, Callable[[], Row]]:
    """Features and slopes of every basis, by Inductor and, where there is one, by the kernel by hand."""
    makers: dict[str, Callable[[], Row]] = {}
    for case in BASES:
        functions = basis_linear._features(case.basis), basis_linear._slopes(case.basis, ())
        for kind, function in zip(("features", "slopes"), functions, strict=True):
            name = f"{case.name}, {kind}"
            if triton_ops.triton_kernels(case.basis) is not None:
                makers[f"{name}, Triton"] = functools.partial(by_hand, case, kind)
            makers[f"{name}, Inductor"] = functools.partial(
                by_inductor, name, function, *case.arguments(kind)
            )
    return makers


def _other_rows() -> dict[str, Callable[[], Row]]:
    """The functions of no basis."""
    x: Argument = (("rows", INPUTS), BF16)
    knots: Argument = ((10, INPUTS), F32)
    values, gradients = elementwise._kernels(spline_kan.truncated_power_splines, spline_kan.spline_gradients)
    grouped: Argument = (("rows", 8, INPUTS // 8), BF16)
    coefficients: tuple[Argument, Argument] = (((8, 6), F32), ((8, 4), F32))
    weight: Shape = (VOCABULARY, INPUTS)
    logits: Argument = (("rows", VOCABULARY), BF16)
    bias, targets, losses = ((VOCABULARY,), F32), (("rows",), INT64), (("rows",), F32)
    loss = inspect.unwrap(linear_cross_entropy._losses_and_gradient)
    functions: dict[str, tuple[Any, ...]] = {
        "spline-kan, values": (values, x, knots, knots),
        "spline-kan, gradients": (gradients, x, x, x, knots, knots),
        "gr-kan, values": (learned_curves._rational_values, grouped, *coefficients),
        "gr-kan, gradients": (learned_curves._rational_gradients, grouped, grouped, *coefficients),
        "sum of weight gradients": (basis_linear._add, (weight, F32), (weight, BF16)),
        "cross-entropy and gradient": (lambda x, t, out: loss(x, None, t, out), logits, targets, losses),
        "cross-entropy and gradient, bias": (loss, logits, bias, targets, losses),
    }
    return {name: functools.partial(by_inductor, name, *given) for name, given in functions.items()}


def grows_with_features(row: Row, inputs: int = INPUTS) -> bool:
    """Whether a row keeps a temporary of several numbers for each x."""
    kept = (re.findall(r"rows|\d+", text[: text.index(")")]) for text in row.temporaries)
    return any("rows" in sizes and math.prod(int(n) for n in sizes if n != "rows") > inputs for sizes in kept)
