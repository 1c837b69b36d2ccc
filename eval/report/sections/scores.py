"""Scores: their means, every seed, every task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from eval.report.analysis import Analysis
from eval.report.markdown import best_of, bold, details, spread, table
from eval.report.names import family_label
from eval.report.sections.context import Context, mean_name
from eval.results.run_scores import SINGLE_TASK, decimals
from eval.significance.axes import Benchmark, Family, Level
from eval.suites.registry import known_metric

ARROWS = {"higher": " ↑", "lower": " ↓"}
PERCENT = ("percent", "correlation")  # times 100


def scores_section(analysis: Analysis, context: Context) -> str:
    """Mean, spread over seeds and number of seeds; variants down, benchmarks across."""
    means = _means(analysis)
    rows = []
    for family in analysis.families:
        columns = [_score_column(analysis, arms, benchmark, family) for _, benchmark, arms in means]
        for variant in analysis.variants:
            rows.append([family_label(family), f"`{variant}`", *(c.get(variant, "-") for c in columns)])
    header = ["family", analysis.noun, *(f"{name}{_scale(analysis, own)}" for name, own, _ in means)]
    parts = [
        "## Scores",
        table(header, rows),
        "Mean ± standard deviation over seeds (number of seeds), in percent unless a unit is named; ↑ higher "
        "is better, ↓ lower, the best mean of a family in bold. Means over tasks are unweighted; verdicts "
        "are about the first column of each benchmark.",
        *context.figures_of("seeds", analysis),
        f"Dots are seeds, bars their means; the dashed line is the mean of `{analysis.baseline}`, a dotted "
        "one (where it fits) chance.",
    ]
    return "\n\n".join(part for part in parts if part)


def _means(analysis: Analysis) -> list[tuple[str, Benchmark, pd.DataFrame]]:
    """Every mean under a name that says what it is over: the one compared first, then that over phenomena."""
    means = []
    for benchmark in analysis.benchmarks:
        over = mean_name(analysis, benchmark)
        means.append((f"{benchmark}, {over}" if over else str(benchmark), benchmark, analysis.arms))
        if len(other := analysis.part_means[analysis.part_means.benchmark == benchmark]):
            means.append((f"{benchmark}, mean of {other.num_parts.iloc[0]} phenomena", benchmark, other))
    return means


def _scale(analysis: Analysis, benchmark: Benchmark) -> str:
    """Write a unit other than percent, and which scores are better."""
    outcome = analysis.outcome(benchmark)
    unit = "" if outcome.unit in PERCENT else f" ({outcome.unit or 'no unit'})"
    return unit + ARROWS[outcome.better]


def _digits(analysis: Analysis, benchmark: Benchmark, family: Family) -> int:
    """Decimals of scores: one in percent, else as many as the spread over seeds lets count."""
    if analysis.outcome(benchmark).unit in PERCENT:
        return 1
    return next((comparison.digits for comparison in analysis.of(benchmark, family)), 1)


def _score_column(
    analysis: Analysis, arms: pd.DataFrame, benchmark: Benchmark, family: Family
) -> dict[Level, str]:
    chosen = arms[(arms.benchmark == benchmark) & (arms.family == family)]
    digits, is_lower = _digits(analysis, benchmark, family), analysis.outcome(benchmark).better == "lower"
    best = best_of(dict(zip(chosen.variant, chosen["mean"], strict=True)), is_lower, digits)
    return {
        variant: f"{bold(f'{mean:.{digits}f}', variant in best)}{spread(sd, digits)} ({n})"
        for variant, mean, sd, n in zip(
            chosen.variant, chosen["mean"], chosen["sd"], chosen["n"], strict=True
        )
    }


def seeds_section(analysis: Analysis) -> str:
    """Every single score."""
    seeds = sorted(analysis.runs.seed.unique())
    scores = analysis.runs.set_index(["benchmark", "family", "variant", "seed"]).score.to_dict()
    parts = ["### Every seed"]
    for benchmark in analysis.benchmarks:
        rows = []
        for family in analysis.families:
            digits = _digits(analysis, benchmark, family)
            for variant in analysis.variants:
                values = [scores.get((benchmark, family, variant, seed)) for seed in seeds]
                shown = ["-" if value is None else f"{value:.{digits}f}" for value in values]
                rows.append([family_label(family), f"`{variant}`", *shown])
        header = ["family", analysis.noun, *(f"seed {seed}" for seed in seeds)]
        unit = analysis.outcome(benchmark).unit
        parts.append(details(f"{benchmark}, {unit or 'without a unit'}", table(header, rows)))
    return "\n\n".join(parts)


def tasks_section(analysis: Analysis) -> str:
    """Means per task, tasks down and variants across; empty when the source names no tasks."""
    parts = []
    for benchmark in [*analysis.benchmarks, *analysis.not_compared]:
        tasks = analysis.tasks[analysis.tasks.benchmark == benchmark]
        if set(tasks.task) == {SINGLE_TASK}:
            continue
        for family in (name for name in analysis.families if name in set(tasks.family)):
            baselines = analysis.source.baselines.get(benchmark.name, {})
            title = f"{benchmark}, {family_label(family)}"
            if benchmark in analysis.not_compared:
                title += " (in its own unit, not compared)"
            body = _task_table(tasks[tasks.family == family], analysis.variants, baselines)
            parts.append(details(title, body))
    if not parts:
        return ""
    text = (
        "Mean over seeds, percentages unless named otherwise, the best in bold. Untested: among many tasks "
        "some best is luck."
    )
    if analysis.source.baselines:
        text += (
            " *Constant answer* is what the one answer scores that does best on the training set: for "
            "accuracy the majority class; of lm-eval's tasks with choices it is a guess."
        )
    return "\n\n".join(["## Tasks", text, *parts])


def _task_table(
    tasks: pd.DataFrame, variants: Sequence[Level], baselines: Mapping[str, Mapping[str, float]]
) -> str:
    rows = []
    for (group, task, metric), arms in tasks.groupby(["group", "task", "metric"], sort=True):
        means = dict(zip(arms.variant, arms["mean"], strict=True))
        places, known = decimals(str(metric)), known_metric(str(metric))
        better = (known.better if known else None) or "higher"
        best = best_of(means, better == "lower", places)
        shown = [
            bold(f"{means[name]:.{places}f}", name in best) if name in means else "-" for name in variants
        ]
        row = [str(group), str(task), str(metric).replace("_", " ") + ARROWS[better], *shown]
        if baselines:
            constant = baselines.get(str(task), {}).get(str(metric))
            row.append("-" if constant is None else f"{constant:.1f}")
        rows.append(row)
    header = ["group", "task", "metric", *(f"`{name}`" for name in variants)]
    return table([*header, "constant answer"] if baselines else header, rows)
