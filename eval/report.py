"""Write a report from scores: ``python -m eval.report SOURCE --out DIR``."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import tyro

from eval.analysis import Analysis, analyse
from eval.figures import draw_all, to_svg
from eval.report_text import Context, answer, render
from eval.significance import Comparison
from eval.sources import read_source
from ffn_variants.cli import parse_flags
from ffn_variants.errors import UsageError, run_cli
from ffn_variants.files import write_text

VERSIONED = ("ffn-ablations", "numpy", "scipy", "pandas", "matplotlib")


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


def write_report(
    source: Path,
    out: Path,
    baseline: str | None = None,
    *,
    contrasts: Sequence[str] = (),
    margin: float | None = None,
) -> Path:
    """Write a report; every number is computed before the first file is written.

    Args:
        source: A study's folder, a rows file, or a CSV of scores.
        out: Folder for the report; made if absent.
        baseline: The variant that others are compared with; None takes the study's, else gelu.
        contrasts: Further comparisons such as ``relu+silu - prelu+swish``.
        margin: Percentage points named negligible before the results were seen; None takes the study's.

    Returns:
        The path of ``report.md``.

    Raises:
        UsageError: For a source, baseline or contrast that cannot be used.
    """
    if margin is not None and not (math.isfinite(margin) and margin > 0):
        raise UsageError(f"margin {margin} is not a positive number of percentage points")
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; --out names a folder")
    analysis = analyse(read_source(source), baseline, contrasts, margin)
    drawn = draw_all(analysis)
    context = Context(
        command=_command(analysis, out, contrasts),
        versions=_versions(),
        figures={name: alt for name, (_, alt) in drawn.items()},
    )
    files = {f"figures/{name}.svg": to_svg(figure) for name, (figure, _) in drawn.items()}
    tables = _tables(analysis)
    files |= {f"tables/{name}.csv": table.to_csv(index=False) for name, table in tables.items()}
    content = _numbers(analysis, context, tables)
    files["report.json"] = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    files["report.md"] = render(analysis, context)  # last: whoever sees it finds the rest
    for name, text in files.items():
        write_text(out / name, text)
    return out / "report.md"


def _command(analysis: Analysis, out: Path, contrasts: Sequence[str]) -> str:
    words = ["python", "-m", "eval.report", _shown(analysis.source.path), "--out", _shown(out)]
    words += ["--baseline", analysis.baseline]
    for contrast in contrasts:
        words += ["--contrast", contrast]
    if analysis.margin is not None:
        words += ["--margin", f"{analysis.margin:g}"]
    return shlex.join(words)


def _shown(path: Path) -> str:
    """A path as typed from here, so that a report names no folder of the machine it was made on."""
    absolute = path.resolve()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else os.fspath(path)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:  # run from a source tree that was never installed
            versions[name] = "unknown"
    return versions


def _tables(analysis: Analysis) -> dict[str, pd.DataFrame]:
    tables = {
        "scores": analysis.cells,
        "seeds": analysis.runs[["run_id", "family", "variant", "seed", "benchmark", "score"]],
        "comparisons": _comparison_table(analysis.comparisons),
        "tasks": analysis.tasks,
        "missing": analysis.missing,
    }
    if analysis.contrasts:
        tables["contrasts"] = _comparison_table(analysis.contrasts)
    if analysis.facts:
        facts = pd.DataFrame([asdict(facts) for facts in analysis.facts])
        tables["training"] = facts.drop(columns="curve")
    return tables


def _comparison_table(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    rows = [{**asdict(c), "families": "+".join(c.families), "verdict": c.verdict} for c in comparisons]
    return pd.DataFrame(rows)


def _numbers(analysis: Analysis, context: Context, tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    return {
        "title": analysis.source.title,
        "answer": list(answer(analysis)),
        "source": _shown(analysis.source.path),
        "source_kind": analysis.source.kind,
        "command": context.command,
        "versions": dict(context.versions),
        "baseline": analysis.baseline,
        "margin": analysis.margin,
        "confidence": analysis.confidence,
        "families": list(analysis.families),
        "variants": list(analysis.variants),
        "benchmarks": list(analysis.benchmarks),
        "notes": list(analysis.notes),
        **{name: _records(table) for name, table in tables.items()},
        "baselines": dict(analysis.source.baselines),
        "contamination": {name: asdict(found) for name, found in analysis.source.contamination.items()},
        "curves": {x.run_id: [list(point) for point in x.curve] for x in analysis.facts if x.curve},
    }


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain Python values; what is not estimable is null, as JSON has no nan."""
    return json.loads(table.to_json(orient="records", double_precision=15))


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
