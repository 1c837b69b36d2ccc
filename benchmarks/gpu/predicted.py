"""What a training step was predicted to take on GPUs, part by part, and what two of them took.

``predicted.json`` was computed on 27 November 2026 from the launches of a step, counted without a GPU with
their bytes and FLOPs, by a roofline: bf16 products at 48% (H100, H200) or 60% (A100) of the datasheet,
memory at 80%, attention at 20 or 30%, 2 microseconds a launch. An H100 was within 6 to 13% of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RUN_TOKENS = 466_000_000
"""Real tokens of one run: an epoch of TinyStories with the source study's tokenizer."""


def read() -> dict[str, dict[str, Any]]:
    """Case to its ``peak_bytes`` and ``devices``, each with the seconds of its ``parts_s`` and of a run."""
    return json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def tables() -> list[str]:
    """Milliseconds of each part of each case's step, a table a device."""
    cases, lines = read(), []
    for device in next(iter(cases.values()))["devices"]:
        found = [case["devices"][device] for case in cases.values()]
        rows = [[f"ms of a step, {device}, predicted", *cases], ["---", *["--:"] * len(cases)]]
        rows += [
            [part, *(f"{1e3 * one['parts_s'][part]:.2f}" for one in found)] for part in found[0]["parts_s"]
        ]
        rows.append(["**in all**", *(f"**{1e3 * sum(one['parts_s'].values()):.2f}**" for one in found)])
        rows.append(["s of a run of 466M tokens", *(f"{one['run_in_graph_s']:.0f}" for one in found)])
        lines += ["", *(f"| {' | '.join(row)} |" for row in rows)]
    return lines
