"""What a report of many scores takes.

    OMP_NUM_THREADS=1 python -m benchmarks.big_report

Prints the processor time (user and system), wall time and peak memory of a report, each in a process of its
own: of 10,000 scores (20 variants, 10 seeds, 5 benchmarks of 10 tasks) and of 1,000,000 (100 seeds, 100
tasks), as CSV and as parquet. The scores are made up, in a temporary folder.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from base.errors import run_cli

VARIANTS, BENCHMARKS = 20, 5
SIZES = ((10, 10), (100, 100))
"""Seeds, and tasks of each benchmark."""


def main(_args: Sequence[str] | None = None) -> None:
    """Run the command."""
    with tempfile.TemporaryDirectory() as folder:
        for seeds, tasks in SIZES:
            table = made_up_scores(VARIANTS, seeds, BENCHMARKS, tasks)
            as_csv, as_parquet = (Path(folder) / f"scores.{kind}" for kind in ("csv", "parquet"))
            table.to_csv(as_csv, index=False)
            table.to_parquet(as_parquet, index=False)
            for path in (as_csv, as_parquet):
                processor, wall = time_of_report(path, Path(folder) / "report")
                # Of the largest child so far; sizes ascend.
                peak_gb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9
                print(
                    f"{len(table):,} scores, {path.suffix[1:]}: {processor:.1f} s of processor time, "
                    f"{wall:.1f} s, peak {peak_gb:.2f} GB",
                    flush=True,
                )


def made_up_scores(variants: int, seeds: int, benchmarks: int, tasks: int) -> pd.DataFrame:
    """One row a score in percent, of normal effects of variants, seeds and tasks in one family."""
    rng = np.random.default_rng(0)
    shape = (variants, seeds, benchmarks, tasks)
    scores = 70 + rng.normal(0, 1, (variants, 1, 1, 1)) + rng.normal(0, 1, (variants, seeds, 1, 1))
    scores = scores + rng.normal(0, 3, (1, 1, benchmarks, tasks)) + rng.normal(0, 3, shape)
    variant, seed, benchmark, task = (place.ravel() for place in np.indices(shape))
    names = np.array(["gelu", *(f"variant{i:02}" for i in range(1, variants))])
    return pd.DataFrame(
        {
            "family": "gpt_neo",
            "variant": names[variant],
            "seed": seed + 1,
            "benchmark": np.char.add("benchmark", benchmark.astype(str)),
            "task": np.char.add("task", task.astype(str)),
            "score": scores.ravel().round(2),
        }
    )


def time_of_report(table: Path, out: Path) -> tuple[float, float]:
    """Return seconds of processor time and wall time of a report, the start of its process included."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "ffn_ablations", "report", str(table), "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return processor, time.perf_counter() - began


if __name__ == "__main__":
    run_cli(main)
