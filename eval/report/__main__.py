"""Write a report from scores: ``python -m eval.report SOURCE --out DIR``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from eval.report.write import write_report
from ffn_variants.cli import parse_flags
from ffn_variants.errors import run_cli


@dataclass(frozen=True, kw_only=True)
class ReportArgs:
    """Say from scores which variants differ from the baseline, and how sure one can be.

    Writes report.md (start there), report.json with every number, tables/*.csv and figures/*.svg.

    For a study: python -m eval.report runs/quickstart

    For a table: python -m eval.report scores.csv --out report --contrast "relu+silu - prelu+swish"
    """

    source: Annotated[Path, tyro.conf.Positional]
    """A study's folder, a rows.parquet, or a CSV with family,variant,seed,benchmark,score (percent)."""
    out: Path | None = None
    """Folder to write into (default: SOURCE/report for a study, ./report for a file)."""
    baseline: str | None = None
    """The variant that others are compared with (default: the study's, else gelu)."""
    contrast: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """A further comparison, "a+b - c+d"; may be given several times."""
    margin: float | None = None
    """Percentage points named negligible before the results (default: the study's, else none)."""


def main() -> int:
    """Write one report and say where it is."""
    args = parse_flags(ReportArgs, prog="python -m eval.report")
    out = args.out or (args.source / "report" if args.source.is_dir() else Path("report"))
    path = write_report(args.source, out, args.baseline, contrasts=args.contrast, margin=args.margin)
    first, second = json.loads((out / "report.json").read_text(encoding="utf-8"))["answer"]
    print(f"{first} {second}\n\n{path}")
    return 0


if __name__ == "__main__":
    run_cli(main)
