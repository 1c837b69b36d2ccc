"""The parts of a training step as torch.profiler sees them, beside what was predicted of them.

python -m benchmarks.gpu.measured --prediction gpu-report.json

The steps are those of ``benchmarks.gpu.prediction``, on a real device. A kernel belongs to the part of the
operation that launched it, by the rule that the prediction counts by (``roofline.part_of``). The profiler
slows the host and not the device, so whole steps are timed without it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from base.errors import run_cli
from benchmarks.gpu.roofline import BODY, COPIES, DEVICES, OTHER, PARTS, VOCABULARY, part_of
from benchmarks.gpu.workload import CASES, RUN_TOKENS, build_loop, build_network
from ffn_variants.kernels.compilation import use_compiled_kernels
from pretrain.config import ResolvedConfig
from pretrain.data.step_batches import one_ahead
from pretrain.training.loop import Loop

QUICK = (
    *("--model.hidden-size", "32", "--model.intermediate-size", "32", "--model.num-attention-heads", "2"),
    *("--data.vocab-size", "300", "--data.block-size", "64", "--train.batch-size", "4"),
    "--train.no-torch-compile",
)
"""The least sizes, with which the command can be tried out."""


@dataclass(frozen=True)
class Measured:
    """What was measured of a case.

    Attributes:
        step_s: Seconds of a step, once the device is done.
        host_s: Seconds that the host takes to ask for it.
        parts_s: Seconds on the device of each part.
        peak_bytes: Most memory at one time.
        run_s: Seconds of a whole run at this speed.
    """

    step_s: float
    host_s: float
    parts_s: dict[str, float]
    peak_bytes: int
    run_s: float


def measure(config: ResolvedConfig, updates: int) -> Measured:
    """Train a few steps of a configuration, without the profiler and with it."""
    use_compiled_kernels(config.train.torch_compile is not False)  # as in a long run
    with tempfile.TemporaryDirectory() as folder:
        loop = build_loop(config, build_network(config), Path(folder))
        device = loop.accelerator.device
        run_updates(loop, 3)  # compiles
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        start = time.perf_counter()
        losses, num_tokens = ask_for(loop, updates)
        host_s = (time.perf_counter() - start) / updates
        torch.stack(losses).tolist()  # waits for the device
        step_s = (time.perf_counter() - start) / updates
        peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
        parts_s = profile_parts(loop, max(1, updates // 5), config.data.vocab_size)
    return Measured(step_s, host_s, parts_s, peak, RUN_TOKENS / num_tokens * updates * step_s)


def run_updates(loop: Loop, count: int) -> None:
    """Do updates and wait for the device."""
    torch.stack(ask_for(loop, count)[0]).tolist()


def ask_for(loop: Loop, count: int) -> tuple[list[Tensor], int]:
    """Ask the device for the next updates, as the loop does; returns their losses and their tokens."""
    losses, num_tokens = [], 0
    for step in one_ahead(loop._step, range(loop.state.step, loop.state.step + count)):
        losses.append(loop._update(step))
        loop.state.step += 1
        num_tokens += step.num_tokens
    return losses, num_tokens


def profile_parts(loop: Loop, updates: int, vocab_size: int) -> dict[str, float]:
    """Seconds of each part in an update, on the device; on a CPU those of its operations."""
    on_gpu = loop.accelerator.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities, record_shapes=True, acc_events=True) as profiler:
        run_updates(loop, updates)
    seconds = dict.fromkeys(PARTS, 0.0)
    for event in profiler.events():  # type: ignore[union-attr]
        if event.device_type == DeviceType.CPU:
            for part, spent in spent_on(event, on_gpu, vocab_size):
                seconds[part] += spent / updates
    return seconds


def spent_on(event: Any, on_gpu: bool, vocab_size: int) -> Iterator[tuple[str, float]]:
    """Part and seconds of each kernel that an operation launched, or of itself on a CPU."""
    part = part_of_event(event, vocab_size)
    if not on_gpu:
        yield part, event.self_cpu_time_total / 1e6
        return
    for kernel in event.kernels:
        copied = part_of(kernel.name, (), vocab_size) == COPIES
        yield COPIES if copied else part, kernel.duration / 1e6


def part_of_event(event: Any, vocab_size: int) -> str:
    """Part of an operation; one that says nothing of itself belongs to what it is within.

    A cast within a linear layer is none of its product.
    """
    part = part_of(event.name, event.input_shapes or (), vocab_size)
    parent = event.cpu_parent
    while part == OTHER and parent is not None:
        above = part_of(parent.name, parent.input_shapes or (), vocab_size)
        part = OTHER if above in (BODY, VOCABULARY) else above
        parent = parent.cpu_parent
    return part


def table(name: str, measured: Measured, predicted: dict[str, Any] | None, device: str) -> list[str]:
    """Measured beside predicted, in milliseconds."""
    paper = (predicted or {}).get("devices", {}).get(device)
    lines = [f"| {name} | measured | predicted, {device or 'no such device'} |", "| --- | --: | --: |"]

    def add(label: str, value: float, expected: float | None, digits: int = 2) -> None:
        shown = "" if expected is None else f"{expected:,.{digits}f}"
        lines.append(f"| {label} | {value:,.{digits}f} | {shown} |")

    for part in PARTS:
        add(f"{part}, ms", 1e3 * measured.parts_s[part], paper and 1e3 * paper["parts_s"][part])
    sums = sum(measured.parts_s.values()), paper and sum(paper["parts_s"].values())
    add("**the device, in all, ms**", 1e3 * sums[0], sums[1] and 1e3 * sums[1])
    add("the host, ms", 1e3 * measured.host_s, paper and 1e3 * paper["host_s"])
    add("**a step, ms**", 1e3 * measured.step_s, None)
    add("**a run of 466M tokens, s**", measured.run_s, paper and paper["run_s"], 0)
    add(
        "peak memory, GiB",
        measured.peak_bytes / 2**30,
        predicted["peak_bytes"] / 2**30 if predicted else None,
    )
    return lines


def device_of(name: str) -> str:
    """The device of the prediction that a GPU is, or none."""
    return next((device.name for device in DEVICES if device.name in name), "")


def read(path: Path | None) -> dict[str, Any]:
    """What was predicted; nothing where that failed."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8")) if path else {}
    return {}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every case and print; 1 where one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.measured",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--prediction", type=Path, help="what prediction --json wrote")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="least sizes, to try the command out")
    args = parser.parse_args(argv)
    on_gpu = args.device == "cuda" and torch.cuda.is_available()
    device = device_of(torch.cuda.get_device_name()) if on_gpu else ""
    predicted, failed = read(args.prediction), 0
    for case in CASES:
        try:
            measured = measure(case.config(*(QUICK if args.quick else ())), 2 if args.quick else 50)
        except Exception:  # one case out of memory, say, leaves the others
            failed += 1
            print(f"\n{case.name} failed:\n\n```text\n{traceback.format_exc()}```\n", flush=True)
            continue
        print("\n" + "\n".join(table(case.name, measured, predicted.get(case.name), device)), flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    run_cli(lambda: main(sys.argv[1:]))
