"""The paper table: what a training step takes on a GPU, part by part, from what was counted of it.

python -m benchmarks.gpu.prediction
python -m benchmarks.gpu.prediction --cases "GPT-Neo, gelu" --device H200

The project's own step runs over fake tensors on a pretended CUDA device, which has shapes and no numbers, and
each launch is counted with its bytes and FLOPs (``benchmarks.gpu.counting``). A roofline model makes times of
them (``benchmarks.gpu.roofline``), whose assumptions are printed beside the table. Nothing is measured.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from base.errors import run_cli
from base.families import get_family
from benchmarks.gpu.counting import Launched, count_updates
from benchmarks.gpu.roofline import (
    ASSUMPTIONS,
    ATTENTION,
    DEVICES,
    PARTS,
    Counted,
    Device,
    PartTime,
    device_time,
    host_time,
    part_of,
    step_time,
)
from benchmarks.gpu.workload import CASES, RUN_TOKENS, Case, attended, packed_rows

ROWS, BLOCK, VOCABULARY = 112, 512, 10_000
"""Sizes of a step of the shipped configurations."""

PASSES = {"fused::_losses_and_gradient": 1.5}
"""Logits are read for their largest and their sum, read again, overwritten; the counter has two of three."""

AS_IT_STANDS, COMPILED = "As it stands", "With the body compiled (`--train.compile-model`)"
"""Two ways to count a step. What is compiled stands in one row: the FFN's plain functions fuse with casts."""

BAR_S = {"gelu": 95, "kan": 115}
"""What a run may take on an H100, by FFN."""


def count(cases: Sequence[Case], compiled: bool = False) -> dict[str, Counted]:
    """Count an update of each case, on rows as full as those of a run, with its body compiled or not."""
    fields = [
        {
            "family": case.family,
            "variant": case.variant,
            "fused": True,
            "rows": ROWS,
            "shipped": True,
            "overrides": case.options(),
        }
        for case in cases
    ]
    rows = packed_rows(ROWS, BLOCK, VOCABULARY)
    counted = {}
    for case, counts in zip(cases, count_updates(fields, compiled), strict=True):
        is_causal = get_family(case.family).objective == "causal"
        scores = case.config().model.hidden_size * rows.input_ids.size * BLOCK * attended(rows, is_causal)
        launches = [with_passes(with_attention(launch, scores)) for launch in counts.launches]
        counted[case.name] = Counted(launches, counts.copies, VOCABULARY, rows.num_tokens, counts.peak_bytes)
    return counted


def with_attention(launch: Launched, scores: float) -> Launched:
    """Give attention the FLOPs of the scores that it computes: the counter knows no lengths of documents.

    Two products forward; five backward, of which one makes the scores again.
    """
    if part_of(launch.name, launch.shapes, VOCABULARY) != ATTENTION or not launch.flops:
        return launch
    return replace(launch, flops=round(2 * (5 if "backward" in launch.name else 2) * scores))


def with_passes(launch: Launched) -> Launched:
    """Count what a function reads twice as often as it does: the counter has it once."""
    return replace(launch, num_bytes=round(PASSES.get(launch.name, 1) * launch.num_bytes))


def predict(counted: Counted) -> dict[str, Any]:
    """Times of a step on every device, in seconds, as JSON keeps them."""
    devices = {}
    for device in DEVICES:
        times = device_time(counted, device)
        steps = RUN_TOKENS / counted.num_tokens
        devices[device.name] = {
            "parts_s": {part: time.seconds for part, time in times.items()},
            "host_s": host_time(times),
            "run_s": steps * step_time(times, in_graph=False),
            "run_in_graph_s": steps * step_time(times, in_graph=True),
        }
    launches = len(counted.launches)
    return {"launches": launches, "peak_bytes": counted.peak_bytes, "devices": devices}


def parts_table(counted: dict[str, Counted], device: Device) -> list[str]:
    """Milliseconds of each part of each step on a device."""
    times = {name: device_time(one, device) for name, one in counted.items()}
    lines = [row([f"ms of a step on {device.name}", *times]), row(["---", *["--:"] * len(times)])]
    lines += [row([part, *(f"{1e3 * one[part].seconds:.2f}" for one in times.values())]) for part in PARTS]
    on_device = [sum(time.seconds for time in one.values()) for one in times.values()]
    lines.append(row(["**the device, in all**", *(f"**{1e3 * one:.2f}**" for one in on_device)]))
    lines.append(
        row(["the host, without a graph", *(f"{1e3 * host_time(one):.2f}" for one in times.values())])
    )
    steps = [RUN_TOKENS / one.num_tokens for one in counted.values()]
    for label, in_graph in (("launched one by one", False), ("in a CUDA graph", True)):
        runs = [n * step_time(one, in_graph) for n, one in zip(steps, times.values(), strict=True)]
        lines.append(row([f"**s of a run**, {label}", *(f"**{run:.0f}**" for run in runs)]))
    return lines


def counts_table(counted: dict[str, Counted]) -> list[str]:
    """Launches, gigabytes and TFLOPs of each part of each step, which no device changes."""
    times = {name: device_time(one, DEVICES[0]) for name, one in counted.items()}
    lines = [row(["launches; GB; TFLOP", *times]), row(["---", *["--:"] * len(times)])]
    lines += [row([part, *(cell(one[part]) for one in times.values())]) for part in PARTS]
    lines.append(row(["**in all**", *(f"**{cell(total(one))}**" for one in times.values())]))
    lines.append(row(["peak memory, GiB", *(f"{one.peak_bytes / 2**30:.2f}" for one in counted.values())]))
    return lines


def total(times: dict[str, PartTime]) -> PartTime:
    """All parts together."""
    every = list(times.values())
    return PartTime(
        sum(one.launches for one in every),
        sum(one.num_bytes for one in every),
        sum(one.flops for one in every),
    )


def cell(time: PartTime) -> str:
    """A part's counts."""
    flops = f"{time.flops / 1e12:.2f}" if time.flops else "-"
    return f"{time.launches}; {time.num_bytes / 1e9:.2f}; {flops}"


def row(cells: Sequence[str]) -> str:
    """A line of a markdown table."""
    return f"| {' | '.join(cells)} |"


def verdicts(predicted: dict[str, Any]) -> list[str]:
    """How each run stands to its bar on an H100, and what takes most of it."""
    lines = []
    for name, one in predicted.items():
        bar = next(seconds for ffn, seconds in BAR_S.items() if f", {ffn}" in name)
        parts = one["devices"]["H100"]["parts_s"]
        largest = sorted(parts, key=parts.get, reverse=True)[:3]
        most = ", ".join(f"{part} {parts[part] / sum(parts.values()):.0%}" for part in largest)
        run = min(one["devices"]["H100"][key] for key in ("run_s", "run_in_graph_s"))
        over_ms = 1e3 * (run - bar) * sum(parts.values()) / run
        told = "reached" if run <= bar else f"NOT reached, by {over_ms:.1f} ms of a step"
        lines.append(f"- {name}: {run:.0f} s on an H100, at most {bar} s wanted: {told}. Most of it: {most}.")
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Count, calculate, print."""
    argv = sys.argv[1:] if argv is None else argv
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.prediction",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cases", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--device", choices=[device.name for device in DEVICES], help="one table; else all")
    parser.add_argument("--json", type=Path, help="a file for the times, to be held against measured ones")
    args = parser.parse_args(argv)
    cases = [case for case in CASES if case.name in args.cases]
    counted = {AS_IT_STANDS: count(cases)}
    if importlib.util.find_spec("triton"):
        counted[COMPILED] = count(cases, compiled=True)
    predicted = {way: {name: predict(one) for name, one in each.items()} for way, each in counted.items()}
    if args.json:
        args.json.write_text(json.dumps(predicted[AS_IT_STANDS], indent=1), encoding="utf-8")
    print(f"`python -m benchmarks.gpu.prediction {shlex.join(argv)}`  ")
    print(
        f"{datetime.date.today():%d %B %Y}, torch {importlib.metadata.version('torch')}, transformers "
        f"{importlib.metadata.version('transformers')}. **On paper: nothing here was measured.**\n"
    )
    print(f"A run is {RUN_TOKENS / 1e6:.0f}M real tokens; evaluations and checkpoints are not in it.")
    for way, each in counted.items():
        print(f"\n**{way}**\n\n" + "\n".join(counts_table(each)))
        for device in DEVICES:
            if args.device in (None, device.name):
                print("\n" + "\n".join(parts_table(each, device)))
        print("\n" + "\n".join(verdicts(predicted[way])))
    print("\nAssumed:\n\n" + "\n".join(f"- {what}: {why}." for what, why in ASSUMPTIONS))


if __name__ == "__main__":
    run_cli(main)
