"""What the looks of a study decided that adds seeds only to what is undecided."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from report.inputs.study_design import Design
from report.significance.axes import Benchmark


def decided_seeds(design: Design, benchmark: Benchmark) -> dict[str, Sequence[int]]:
    """Return by comparison, as written, the seeds that it was decided with on a benchmark."""
    return {
        comparison: design.seeds[:num_seeds]
        for (comparison, metric), (num_seeds, _) in _decided(design).items()
        if metric == str(benchmark)
    }


def runs_of_all(design: Design, runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the runs of seeds that all variants were meant to have."""
    first = design.decisions.planned[0] if design.decisions else None
    return runs[runs.seed.isin(design.seeds[:first])] if first else runs


def decided_remark(design: Design) -> str | None:
    """Say which comparisons are shown as they were at a look before the last one, and what that saved.

    None where seeds are no matter of looks, or nothing was decided before the latest one.
    """
    if design.decisions is None:
        return None
    used = f" It took {design.decisions.runs_used}." if design.decisions.is_over else ""
    early: dict[str, list[str]] = {}
    for (comparison, metric), (num_seeds, _) in _decided(design).items():
        if num_seeds < len(design.seeds):
            early.setdefault(f"{comparison} with {num_seeds} seeds", []).append(metric)
    if not early:
        return None
    looks = ", ".join(map(str, design.decisions.planned))
    named = "; ".join(f"{words} ({', '.join(metrics)})" for words, metrics in early.items())
    return (
        f"Seeds were added only to variants with an undecided comparison, at looks of {looks} seeds. What "
        f"was decided before the latest look stays as it was then, with the runs of then: {named}. Single "
        f"runs, means of variants and phenomena are of all runs.{used}"
    )


def _decided(design: Design) -> dict[tuple[str, str], tuple[int, str]]:
    return design.decisions.decided() if design.decisions else {}
