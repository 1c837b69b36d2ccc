"""Differences by phenomenon, or by task where a benchmark has no phenomena with several tasks each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from eval.results.outcome import Outcome
from eval.results.run_scores import SINGLE_TASK
from eval.significance.arms import ArmTable, Key, arms_in_order
from eval.significance.axes import Benchmark, Level
from eval.significance.claims import with_interval
from eval.significance.compare import compare_arms
from eval.significance.comparison import Comparison, Inference
from eval.significance.contrasts import Contrast
from eval.significance.statistics.corrections import BenjaminiHochberg


def part_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Average each run's tasks within each part of a benchmark.

    Args:
        scores: What ``comparable_scores`` returns of cleaned rows.

    Returns:
        benchmark, part, family, variant, seed, score; benchmarks of one part only are left out.
    """
    tasks = scores.groupby("benchmark")["task"].transform("nunique")
    groups = scores.groupby("benchmark")["group"].transform("nunique")
    grouped = (groups > 1) & (groups <= tasks / 2)
    scores = scores.assign(part=scores["group"].where(grouped, scores["task"]))
    num_parts = scores.groupby("benchmark")["part"].transform("nunique")
    scores = scores[(num_parts > 1) & (scores["part"] != SINGLE_TASK)]
    keys = ["benchmark", "part", "family", "variant", "seed"]
    return scores.groupby(keys)[["score"]].mean().reset_index()


def means_over_parts(parts: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Average each run over the phenomena of a benchmark, where phenomena are not the tasks themselves.

    Args:
        parts: What ``part_scores`` returns.
        rows: Cleaned rows.

    Returns:
        benchmark, family, variant, seed, score, num_parts; a run without one of the parts is left out.
    """
    num_tasks = rows.groupby("benchmark")["task"].nunique().to_dict()
    num_parts = parts.groupby("benchmark")["part"].transform("nunique")
    are_fewer = np.array(
        [n < num_tasks[name] for name, n in zip(parts.benchmark, num_parts, strict=True)], bool
    )
    parts = parts.assign(num_parts=num_parts)[are_fewer]
    run = ["benchmark", "family", "variant", "seed"]
    complete = parts[parts.groupby(run)["part"].transform("nunique") == parts["num_parts"]]
    return complete.groupby(run, as_index=False).agg(
        score=("score", "mean"), num_parts=("num_parts", "first")
    )


def part_tables(
    parts: pd.DataFrame, outcomes: Mapping[Benchmark, Outcome]
) -> dict[Benchmark, list[ArmTable]]:
    """The runs of every part of every benchmark; chance may differ between parts.

    Args:
        parts: What ``part_scores`` returns.
        outcomes: What the scores of each benchmark are.
    """
    runs: dict[tuple[Benchmark, str], dict[Key, pd.Series]] = {}
    for (benchmark, part, *arm), own in arms_in_order(parts, ["benchmark", "part", "family", "variant"]):
        runs.setdefault((benchmark, str(part)), {})[tuple(arm)] = own
    found: dict[Benchmark, list[ArmTable]] = {}
    for (benchmark, part), arms in runs.items():
        outcome = replace(outcomes[benchmark], chance=None)
        found.setdefault(benchmark, []).append(ArmTable(arms, benchmark, part, outcome))
    return found


def compare_parts(
    parts: Mapping[Benchmark, Sequence[ArmTable]],
    baseline: Level,
    variants: Sequence[Level],
    inference: Inference,
) -> list[Comparison]:
    """Compare every variant with the baseline on every part, averaged over families.

    P-values are corrected over all parts and variants of a benchmark (Benjamini and Hochberg).

    Args:
        parts: What ``part_tables`` returns.
        baseline: The variant that the others are compared with.
        variants: The others.
        inference: How.
    """
    comparisons: list[Comparison] = []
    for benchmark in sorted(parts):
        comparisons += _corrected(
            parts[benchmark], [Contrast((name,), (baseline,)) for name in variants], inference
        )
    return comparisons


def _corrected(
    tables: Sequence[ArmTable], contrasts: Sequence[Contrast], inference: Inference
) -> Iterator[Comparison]:
    """Compare on every part of a benchmark, corrected over all of them."""
    found = [
        (arms, compare_arms(arms, contrast, arms.scopes()[0], inference, thorough=False))
        for arms in tables
        for contrast in contrasts
    ]
    p_values = [c.p_sequential for _, c in found]
    corrected = BenjaminiHochberg().adjust(p_values)
    levels = BenjaminiHochberg().levels(p_values, inference.level)
    for (arms, comparison), p, level in zip(found, corrected, levels, strict=True):
        yield with_interval(
            replace(comparison, p_bh=p, level_simultaneous=level and comparison.look.nominal(level)),
            arms,
            inference,
        )
