"""What a training step was predicted to take on GPUs, part by part, and what two of them took.

``predicted.json`` was computed on 27 November 2026 from the launches of a step, counted without a GPU with
their bytes and FLOPs, by a roofline. Its ``H200, measured`` is of ``benchmarks.gpu.report`` the same day.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RUN_TOKENS = 466_000_000
"""Real tokens of one run: an epoch of TinyStories with the source study's tokenizer."""

ASSUMPTIONS = """\
Predicted from what a step launches, counted without a GPU, with these assumptions:

- 57,344 positions a step, 98% of them tokens: 8,292 steps are 466M tokens
- bf16 products at 48% of 989 TFLOP/s (H100, H200) or 60% of 312 (A100); an H200 did 68 to 76%
- memory at 80% of 3.35 (H100), 4.8 (H200) or 2.0 TB/s (A100); an H200 did 46%, in softmax 35%
- attention at 20% (H100, H200) or 30% (A100) of those products; an H200 did 16 to 19%
- 2 microseconds a launch, none for the host, as a step is recorded as one CUDA graph
- not in a run: its start, 5 s of compiling, evaluation, checkpoints; nor what a compiled model saves"""
"""What a reader recomputes a row from."""


def read() -> dict[str, dict[str, Any]]:
    """Case to its ``peak_bytes`` and ``devices``, each with the seconds of its ``parts_s`` and of a run."""
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def tables() -> list[str]:
    """Milliseconds of each part of each case's step, a table a device."""
    cases, lines = read(), [ASSUMPTIONS]
    for device in next(iter(cases.values()))["devices"]:
        found = [case["devices"][device] for case in cases.values()]
        rows = [[f"ms of a step, {device}", *cases], ["---", *["--:"] * len(cases)]]
        rows += [
            [part, *(f"{1e3 * one['parts_s'][part]:.2f}" for one in found)] for part in found[0]["parts_s"]
        ]
        rows.append(["**in all**", *(f"**{1e3 * sum(one['parts_s'].values()):.2f}**" for one in found)])
        rows.append(["s of a run of 466M tokens", *(f"{one['run_in_graph_s']:.0f}" for one in found)])
        lines += ["", *(f"| {' | '.join(row)} |" for row in rows)]
    return lines
