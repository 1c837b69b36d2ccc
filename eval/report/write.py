"""Writes a report: every number is computed first, then every file is written."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from eval.report.analysis import Analysis, analyse
from eval.report.figures import draw_all, to_svg
from eval.report.sources import read_source
from eval.report.text import Context, answer, render
from eval.significance import Comparison
from ffn_variants.errors import UsageError
from ffn_variants.files import write_text

VERSIONED = ("ffn-ablations", "numpy", "scipy", "pandas", "matplotlib")


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
        tables["training"] = facts.drop(columns=["curve", "grad_norms"])
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
        "grad_norms": {x.run_id: [list(point) for point in x.grad_norms] for x in analysis.facts},
    }


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain Python values; what is not estimable is null, as JSON has no nan."""
    return json.loads(table.to_json(orient="records", double_precision=15))
