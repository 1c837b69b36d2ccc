"""Training steps recorded as CUDA graphs beside the same ones launched kernel by kernel, in turn.

python -m benchmarks.gpu.recorded

Prints, for every case, milliseconds of a step in each of three rounds, the milliseconds that the device is
busy of it and the launches that the host asks for (both by torch.profiler), and the largest difference of
losses and gradient norms in the first six steps, relative.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from accelerate.state import AcceleratorState, PartialState
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from base.errors import run_cli
from benchmarks.gpu.measured import QUICK, ask_for, run_updates
from benchmarks.gpu.workload import ROOT, build_loop, build_network
from ffn_variants.kernels.compilation import use_compiled_kernels
from pretrain.resolution import load_config
from pretrain.training.loop import Loop

COMPILED = "--train.compile-model"
CASES = (
    *((config, ffn) for config in ("gpt-neo", "roberta", "mini-gpt-neo") for ffn in ("gelu", "kan")),
    *(("gpt-neo", "gelu", COMPILED), ("gpt-neo", "kan", COMPILED), ("roberta", "gelu", COMPILED)),
    *(("small-gpt-neo", "gelu"), ("llama", "swiglu"), ("t5", "gelu"), ("gpt-neo", "moe")),
    ("gpt-neo", "fourier-kan"),
)
KINDS = {"recorded": (), "launched": ("--train.no-cuda-graph",)}
ROUNDS = 3
LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cudaMemcpy", "cudaMemset")
"""How the profiler's names of what a host asks for begin."""


def loop_of(folder: Path, config: str, ffn: str, *flags: str) -> Loop:
    """The loop of a shipped configuration, a whole step in one forward pass, on random rows, in a folder."""
    one_pass = ("--train.per-device-train-batch-size", "112", "--optim.max-steps", "1000")
    resolved = load_config(ROOT / "configs" / f"{config}.yaml", ["--ffn", ffn, *one_pass, *flags])
    PartialState._reset_state()
    AcceleratorState._reset_state(True)
    use_compiled_kernels(resolved.train.torch_compile is not False)  # as in a long run
    return build_loop(resolved, build_network(resolved), folder)


def timed(loop: Loop, updates: int) -> tuple[float, torch.Tensor]:
    """Milliseconds of an update, and (updates, 2) losses and gradient norms."""
    start = time.perf_counter()
    found = torch.stack(ask_for(loop, updates)[0]).cpu()  # waits for the device
    return (time.perf_counter() - start) / updates * 1e3, found


def profiled(loop: Loop, updates: int = 8) -> tuple[float, float]:
    """Milliseconds of an update that the device is busy, and what the host asks it for."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
    with profile(activities=activities, acc_events=True) as profiler:
        run_updates(loop, updates)
    events = list(profiler.events())  # type: ignore[bad-argument-type]
    busy_us = sum(event.device_time for event in events if event.device_type == DeviceType.CUDA)
    asked = sum(event.device_type == DeviceType.CPU and event.name.startswith(LAUNCHES) for event in events)
    return busy_us / updates / 1e3, asked / updates


def compare(folder: Path, case: Sequence[str], sizes: Sequence[str], updates: int) -> list[str]:
    """Lines of a case, of other sizes where flags are given: one for each kind, one of their difference."""
    loops = {kind: loop_of(folder, *case, *flags, *sizes) for kind, flags in KINDS.items()}
    first = {kind: timed(loop, 6)[1] for kind, loop in loops.items()}
    times: dict[str, list[float]] = {kind: [] for kind in loops}
    for _ in range(ROUNDS):
        for kind, loop in loops.items():
            times[kind].append(timed(loop, updates)[0])
    lines = []
    for kind, loop in loops.items():
        busy_ms, asked = profiled(loop)
        steps = ", ".join(f"{each:.2f}" for each in times[kind])
        lines.append(f"| {' '.join(case)} | {kind} | {steps} | {busy_ms:.2f} | {asked:.0f} |")
    difference = (first["recorded"] / first["launched"] - 1).abs().max().item()
    return [*lines, f"| | | differ by {difference:.1e} | | |"]


def main(argv: Sequence[str] | None = None) -> int:
    """Compare every case and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.recorded",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="least sizes, to try the command out")
    args = parser.parse_args(argv)
    print("| case | kernels | ms a step | device busy, ms | asked for |\n| --- | --- | --: | --: | --: |")
    sizes = QUICK if args.quick else ()
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            print("\n".join(compare(Path(folder), case, sizes, args.updates)), flush=True)
    return 0


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
