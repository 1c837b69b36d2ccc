"""Every fused function of the project as CUDA kernels, compiled on a machine without a GPU.

python -m benchmarks.gpu.kernels

Prints a table: launches of a call, temporaries in device memory, registers, stack and spills on sm_80 (A100)
and sm_90 (H100, H200). Those that Inductor writes come out of torch.compile's own path for symbolic sizes; of
the tiles among which it would choose by timing, the worst counts. x is in float32 and 512 wide, features are
in bf16. Takes Linux, a C++ compiler (for the pretend device), Triton, and some minutes.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
import tempfile
import warnings
from pathlib import Path

from benchmarks.gpu import pretend


def main() -> None:
    """Compile and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="functions whose name has this in it")
    only = parser.parse_args().only
    if reason := pretend.why_not():
        sys.exit(f"error: {reason}")
    with tempfile.TemporaryDirectory() as folder:
        pretend.load(pretend.build(Path(folder)))
    import torch
    import triton

    from benchmarks.gpu import kernel_table

    warnings.simplefilter("ignore")
    today = datetime.date.today()
    print(
        f"{today.day} {today:%B %Y}, {platform.system()} {platform.machine()} without a GPU, "
        f"torch {torch.__version__}, triton {triton.__version__}\n"
    )
    print(kernel_table.HEADER)
    for row in kernel_table.rows(only):
        print(row.markdown(), flush=True)


if __name__ == "__main__":
    main()
