"""Runs cases on the pretend device and prints what each asked of it, as JSON: a process of its own.

``python -m tests.pretend_cuda.run LIBRARY < cases.json > found.json``: from
``{id: {"workload", "case"}}`` to ``{id: figures}``.
"""

import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.gpu.pretend import load


def main() -> None:
    """Load the device, then everything else, and run all cases."""
    load(Path(sys.argv[1]))
    asked = json.load(sys.stdin)
    from benchmarks.gpu import steps

    steps.prepare()
    json.dump({name: attempt(ask) for name, ask in asked.items()}, sys.stdout)


def attempt(ask: dict[str, Any]) -> dict[str, Any]:
    """The figures of one case, or what it ended with."""
    start = time.process_time()
    try:
        found = figures(run(ask), row_length(ask))
    except Exception as error:  # whatever the project or torch may raise
        lines = traceback.format_exc().splitlines()
        found = {"error": f"{type(error).__name__}: {error}"[:2000], "trace": lines}
    return found | {"seconds": round(time.process_time() - start, 2)}


def run(ask: dict[str, Any]) -> list[Any]:
    """Traces of one case."""
    from benchmarks.gpu import steps

    return steps.WORKLOADS[ask["workload"]](steps.Case(**ask["case"]))


def row_length(ask: dict[str, Any]) -> int:
    """Tokens of a row; 0, which no shape has, where features are as many and cannot be told from them."""
    from benchmarks.gpu import steps

    config = steps.config_of(steps.Case(**ask["case"]))
    return 0 if config.model.hidden_size == config.data.block_size else config.data.block_size


def figures(traces: list[Any], length: int) -> dict[str, Any]:
    """What the last trace asked of the device, and whether the one before asked the same."""
    last = traces[-1]
    to_device = [copy for copy in last.copies if copy.direction == "to device"]
    blocking = [copy for copy in to_device if copy.blocking]
    products = [launch for launch in last.launches if launch.product_dtype == "float32"]
    squares = [launch for launch in last.launches if _has_square(launch, length)]
    return {
        "launches": len(last.launches),
        "megabytes": round(sum(launch.num_bytes for launch in last.launches) / 1e6, 1),
        "peak_mib": round(last.peak_bytes / 2**20, 2),
        "peak_at": last.peak_site,
        "copies": len(to_device),
        "blocking": _count((f"{copy.num_bytes} bytes", copy.site) for copy in blocking),
        "waits": _count((wait.name, wait.site) for wait in last.waits),
        "on_host": _count(last.on_host),
        "float32_products": _count((launch.name, launch.site) for launch in products),
        "squares": _count((launch.name, launch.site) for launch in squares),
        "flops": dict(last.flops_in()),
        "differs": difference(traces[0], last) if len(traces) > 1 else {},
        "operations": dict(last.launches_of().most_common(40)),
    }


def _has_square(launch: Any, length: int) -> bool:
    """Whether an operation made something for all pairs of tokens of a row."""
    return any(len(shape) >= 2 and shape[-2:] == (length, length) and length for shape in launch.made)


def difference(one: Any, other: Any) -> dict[str, str]:
    """The first operation that two steps do not share."""
    for number, (left, right) in enumerate(zip(one.sequence(), other.sequence(), strict=False)):
        if left != right:
            return {f"operation {number} at {other.launches[number].site}": f"{left}, then {right}"}
    if len(one.launches) != len(other.launches):
        return {"operations": f"{len(one.launches)}, then {len(other.launches)}"}
    return {}


def _count(items: Iterable[tuple[Any, ...]]) -> dict[str, int]:
    return dict(Counter(" at ".join(map(str, item)) for item in items))


if __name__ == "__main__":
    main()
