"""Counts what steps ask of a GPU, in a process that pretends to have one: see ``benchmarks.gpu.pretend``.

``python -m benchmarks.gpu.counting LIBRARY [compiled] < cases.json > counts.json``: from a list of the fields
of ``benchmarks.gpu.steps.Case`` to a list of what was counted of the second update of each.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from base.errors import UsageError
from benchmarks.gpu.pretend import build, load, why_not


@dataclass(frozen=True)
class Launched:
    """A launch, as ``roofline.Launch`` wants it."""

    name: str
    shapes: Sequence[Sequence[int]]
    num_bytes: int
    flops: int


@dataclass(frozen=True)
class Counts:
    """What one step asks of a GPU.

    Attributes:
        launches: In order.
        copies: Bytes of each copy to the device.
        peak_bytes: Most memory at one time.
    """

    launches: list[Launched]
    copies: list[int]
    peak_bytes: int


def count_updates(cases: Sequence[dict[str, Any]], compiled: bool = False) -> list[Counts]:
    """Count an update of each case, in another process.

    Args:
        cases: Fields of each.
        compiled: Whether the model's body is compiled as a whole; this needs triton.

    Raises:
        UsageError: If this machine cannot pretend to have a GPU.
    """
    if reason := why_not():
        raise UsageError(f"{reason}; what GPUs measured stands in benchmarks/RESULTS.md")
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        ended = subprocess.run(
            [sys.executable, "-m", "benchmarks.gpu.counting", str(library), *["compiled"] * compiled],
            input=json.dumps(list(cases)),
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            text=True,
            check=True,
        )
    found = json.loads(ended.stdout)
    return [
        Counts([Launched(**one) for one in counts["launches"]], counts["copies"], counts["peak_bytes"])
        for counts in found
    ]


def main() -> None:
    """Pretend first, then import everything else."""
    load(Path(sys.argv[1]))
    from benchmarks.gpu import steps

    steps.prepare()
    if "compiled" in sys.argv[2:]:
        from benchmarks.gpu import body

        body.install()
    found = []
    for fields in json.load(sys.stdin):
        overrides = tuple(fields.pop("overrides"))
        trace = steps.trace_updates(steps.Case(**fields, overrides=overrides))[-1]
        launches = [Launched(one.name, one.shapes, one.num_bytes, one.flops) for one in trace.launches]
        copies = [copy.num_bytes for copy in trace.copies if copy.direction == "to device"]
        found.append(asdict(Counts(launches, copies, trace.peak_bytes)))
        print(f"\rcounted {len(found)}", end="", file=sys.stderr, flush=True)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
