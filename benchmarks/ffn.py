"""Every FFN variant against an MLP with as many multiply-adds: time and peak memory, in one interleaved run.

python -m benchmarks.ffn                             # 4,096 rows on the CPU
python -m benchmarks.ffn --rows 65536 --rounds 3 --modes compiled
python -m benchmarks.ffn --rows 65536 --device cuda --dtype bfloat16

Each round runs every case once, so that whatever else the machine does falls on all of them. A ratio is the
median over the rounds of a variant's time over its MLP's in the same round. The MLP is linear - tanh-GELU -
linear, eager, with the width that gives it the variant's multiply-adds; spline-kan has none to speak of and
no-ffn none at all, so that both are held against 512-1024-512, as are all variants in the last column.
Prints markdown.

Modes: ``eager``; ``compiled``, the project's switch, which compiles the variants' own functions;
``torch.compile``, the layer in a user's torch.compile, held against the faster of the MLP and the MLP in
torch.compile.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import importlib.util
import platform
import re
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import transformers
from torch import Tensor, nn

from ffn_variants import FFN_VARIANTS, build_ffn, load_variant
from ffn_variants.kernels.compilation import compile_seconds, use_compiled_kernels

HIDDEN_SIZE = 512
REFERENCE_WIDTH = 1024
KAN_WIDTH = 256
NARROW = (
    *("kan", "efficient-kan", "fourier-kan", "cheby-kan", "rbf-kan", "jacobi-kan", "hermite-kan", "relu-kan"),
    *("sine-kan", "wav-kan", "mlp-edge"),
)
"""Variants measured at ``KAN_WIDTH``, as the source study trained its KAN."""
UNCOMPILED = ("efficient-kan",)
if importlib.util.find_spec("efficient_kan"):
    load_variant(str(Path(__file__).with_name("package_kan.py:SPEC")))
MODES: dict[str, bool | None] = {"eager": False, "compiled": True, "torch.compile": None}
"""What ``use_compiled_kernels`` is told."""
RECOMPILE_LIMIT = 64
"""Of torch.compile, whose own limit of 8 counts every MLP of another width."""


@dataclass
class Case:
    """One module in one mode, and what was measured of it."""

    module: nn.Module
    mode: str
    x: Tensor
    grad: Tensor
    dtype: torch.dtype
    forward_s: list[float] = field(default_factory=list)
    total_s: list[float] = field(default_factory=list)
    peak_mb: float = float("nan")

    def run(self) -> tuple[float, float]:
        """Run forward and backward once; returns seconds of the forward pass and of both."""
        use_compiled_kernels(MODES[self.mode])
        self.module.zero_grad(set_to_none=True)
        self.x.grad = None
        start = _now(self.x.device)
        with torch.autocast(self.x.device.type, self.dtype, enabled=self.dtype != torch.float32):
            y = self.module(self.x)
        middle = _now(self.x.device)
        y.backward(self.grad.to(y.dtype))
        return middle - start, _now(self.x.device) - start

    def measure(self) -> None:
        """Add one round's times."""
        forward, total = self.run()
        self.forward_s.append(forward)
        self.total_s.append(total)

    def measure_memory(self) -> None:
        """Find the peak of what a run needs beside the module and its input, gradients included.

        The least of three: now and then the allocator asks for more than a run needs.
        """
        peaks = []
        for _ in range(3):
            self.module.zero_grad(set_to_none=True)
            self.x.grad = None
            peaks.append(peak_mb(self.run, self.x.device))
        self.peak_mb = min(peaks)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def peak_mb(run: Callable[[], object], device: torch.device) -> float:
    """Peak of memory in MiB above what was in use before.

    On a CPU it is the process's resident memory, so that what compiled kernels allocate counts as well.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    if not sys.platform.startswith("linux"):
        run()
        return float("nan")
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = _status_mb("VmRSS")
    run()
    return _status_mb("VmHWM") - before


def _status_mb(name: str) -> float:
    match = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match, f"/proc/self/status has no {name}"
    return int(match[1]) / 2**10


def build_cases(args: argparse.Namespace) -> dict[str, Case]:
    """Make the reference MLP, each variant in its modes, and the MLPs that they are held against."""
    torch.manual_seed(0)
    dtype = getattr(torch, args.dtype)
    x = torch.randn(args.rows, HIDDEN_SIZE, device=args.device).requires_grad_()
    grad = torch.randn(args.rows, HIDDEN_SIZE, device=args.device)

    def case(ffn: str, width: int, mode: str) -> Case:
        module: Any = build_ffn(ffn, HIDDEN_SIZE, width).to(args.device)
        if mode == "torch.compile":
            module = torch.compile(module)
        return Case(module, mode, x, grad, dtype)

    cases = {mlp_name(REFERENCE_WIDTH): case("gelu", REFERENCE_WIDTH, "eager")}
    for name in args.variants:
        width, mlp = variant_width(name), mlp_name(matched_width(name))
        for mode in args.modes if name not in UNCOMPILED else {"eager"} & {*args.modes}:
            base = mlp if mode != "torch.compile" else f"{mlp} {mode}"
            for each, of_mode in ((mlp, "eager"), (base, mode)):
                if each not in cases:
                    cases[each] = case("gelu", matched_width(name), of_mode)
            cases[f"{name} {mode}"] = case(name, width, mode)
    return cases


def matched_mlp(name: str, mode: str, cases: dict[str, Case]) -> Case:
    """The MLP that a variant is held against."""
    mlp = mlp_name(matched_width(name))
    bases = [cases[mlp], *([cases[f"{mlp} {mode}"]] if mode == "torch.compile" else [])]
    return min(bases, key=lambda base: statistics.median(base.total_s))


def mlp_name(width: int) -> str:
    """Name the MLP of a width."""
    return f"mlp {width}"


def variant_width(name: str) -> int:
    """Width that a variant is measured at."""
    return KAN_WIDTH if name in NARROW else REFERENCE_WIDTH


def matched_width(name: str) -> int:
    """Width of the MLP with a variant's multiply-adds."""
    flops = FFN_VARIANTS[name].flops_per_token(HIDDEN_SIZE, variant_width(name))
    return REFERENCE_WIDTH if name == "spline-kan" or not flops else round(flops / 4 / HIDDEN_SIZE)


def ratio(case: Case, base: Case, seconds: str = "total_s") -> float:
    """Median over the rounds of one case's time over another's."""
    pairs = zip(getattr(case, seconds), getattr(base, seconds), strict=True)
    return statistics.median(a / b for a, b in pairs)


def table(names: list[str], cases: dict[str, Case]) -> list[str]:
    """Write the results as markdown."""
    reference = cases[mlp_name(REFERENCE_WIDTH)]
    lines = [
        "| variant | width | MLP | mode | forward, ms | forward + backward, ms | x MLP, forward "
        "| x MLP | memory, MB | memory x MLP | x MLP 512-1024-512 |",
        "| --- | --: | --: | --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for name in names:
        for mode in MODES:
            if (case := cases.get(f"{name} {mode}")) is None:
                continue
            base = matched_mlp(name, mode, cases)
            cells = [
                name,
                f"{variant_width(name)}",
                f"{matched_width(name)}",
                mode,
                f"{1e3 * statistics.median(case.forward_s):.1f}",
                f"{1e3 * statistics.median(case.total_s):.1f}",
                f"{ratio(case, base, 'forward_s'):.2f}",
                f"**{ratio(case, base):.2f}**",
                f"{case.peak_mb:.0f}",
                f"{case.peak_mb / base.peak_mb:.2f}",
                f"{ratio(case, reference):.2f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def machine(device: str) -> str:
    """What it ran on."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    info = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.is_file() else None
    return f"{model[1] if model else platform.processor()}, {torch.get_num_threads()} threads"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ffn",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=4096, help="tokens that pass through at once")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="by autocast")
    parser.add_argument("--modes", nargs="+", choices=tuple(MODES), default=list(MODES))
    parser.add_argument("--variants", nargs="+", choices=tuple(FFN_VARIANTS), default=list(FFN_VARIANTS))
    args = parser.parse_args()
    torch._dynamo.config.recompile_limit = RECOMPILE_LIMIT
    cases = build_cases(args)
    for number, (name, case) in enumerate(cases.items(), start=1):
        print(f"\rwarming up {number}/{len(cases)}: {name:<30}", end="", file=sys.stderr, flush=True)
        case.run()
    for number in range(1, args.rounds + 1):
        print(f"\rround {number}/{args.rounds}{'':<40}", end="", file=sys.stderr, flush=True)
        for case in cases.values():
            case.measure()
    print(file=sys.stderr)
    for case in cases.values():
        case.measure_memory()
    print(f"`python -m benchmarks.ffn {shlex.join(sys.argv[1:])}`  ")
    print(
        f"{datetime.date.today():%d %B %Y}, {machine(args.device)}, torch {torch.__version__}, transformers "
        f"{transformers.__version__}, {args.dtype}, {args.rows:,} rows, median of {args.rounds} rounds, "
        f"{compile_seconds():.0f} s of compiling before\n"
    )
    print("\n".join(table(args.variants, cases)))


if __name__ == "__main__":
    main()
