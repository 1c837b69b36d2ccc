"""Rows of the table of kernels as JSON lines, in a process of its own; also Inductor's, given a library.

What the first argument names is in the names of the rows; the second is the library of the pretend device.
"""

import dataclasses
import json
import sys
from pathlib import Path

from benchmarks.gpu.pretend import load


def main() -> None:
    """Compile and print."""
    if len(sys.argv) > 2:
        load(Path(sys.argv[2]))
    from benchmarks.gpu import kernel_table

    for row in kernel_table.rows(sys.argv[1]):
        grows = kernel_table.grows_with_features(row)
        print(json.dumps({**dataclasses.asdict(row), "grows": grows}), flush=True)
    for case in kernel_table.BASES:
        if f"{case.name}, features, Triton" == sys.argv[1]:
            print(json.dumps({"ptx": kernel_table.ptx_by_hand(case, "features", 90)}))


if __name__ == "__main__":
    main()
