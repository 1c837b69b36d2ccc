"""Scores: their means, every seed, every task, and the parts of benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from eval.report.analysis import Analysis
from eval.report.document.markdown import (
    ARROWS,
    arrow,
    best_of,
    bold,
    details,
    difference,
    p_value,
    spread,
    table,
    unit_name,
)
from eval.report.document.names import family_label, title
from eval.report.sections.context import Context, decimals_of, mean_name
from eval.report.verdicts.ranking import by_standing
from eval.results.run_scores import SINGLE_TASK, decimals
from eval.significance.axes import Benchmark, Family, Level
from eval.significance.comparison import Comparison
from eval.suites.registry import HELD_OUT
from eval.suites.spec import Better


def scores_section(analysis: Analysis, context: Context) -> str:
    """Mean and spread over seeds, the same as dots, and every score folded away."""
    means = _means(analysis)
    rows = []
    for family in analysis.families:
        columns = [_score_column(analysis, arms, benchmark, family) for _, benchmark, arms in means]
        for variant in analysis.variants:
            rows.append([family_label(family), f"`{variant}`", *(c.get(variant, "-") for c in columns)])
    header = [analysis.stratum, analysis.noun, *(name for name, _, _ in means)]
    parts = [
        "## Scores",
        table(header, rows),
        f"Mean ± standard deviation over seeds{_counted(analysis)}; ↑ higher is better, ↓ lower, the best "
        "mean of a family in bold. Means over tasks are unweighted; verdicts are about the first column of "
        "each outcome.",
        context.figure("seeds"),
        details("Every seed", _every_seed(analysis)),
    ]
    return "\n\n".join(part for part in parts if part)


def _counted(analysis: Analysis) -> str:
    return f" ({analysis.arms.n.iloc[0]} each)" if _is_even(analysis) else " (number of seeds)"


def _is_even(analysis: Analysis) -> bool:
    return analysis.arms.n.nunique() == 1


def _means(analysis: Analysis) -> list[tuple[str, Benchmark, pd.DataFrame]]:
    """Every mean under a name that says what it is over: the one compared first, then that over phenomena."""
    means = []
    for benchmark in by_standing(analysis):
        over, end = mean_name(analysis, benchmark), _direction_and_unit(analysis, benchmark)
        name = title(benchmark)
        means.append((f"{name}, {over}{end}" if over else f"{name}{end}", benchmark, analysis.arms))
        if len(other := analysis.part_means[analysis.part_means.benchmark == benchmark]):
            over = f"mean of {other.num_parts.iloc[0]} phenomena"
            means.append((f"{name}, {over}{end}", benchmark, other))
    return means


def _direction_and_unit(analysis: Analysis, benchmark: Benchmark) -> str:
    outcome = analysis.outcome(benchmark)
    unit = {"percent": ", %", "correlation": ", x 100", None: ""}.get(outcome.unit, f", {outcome.unit}")
    return f"{unit} {arrow(outcome)}"


def _score_column(
    analysis: Analysis, arms: pd.DataFrame, benchmark: Benchmark, family: Family
) -> dict[Level, str]:
    chosen = arms[(arms.benchmark == benchmark) & (arms.family == family)]
    digits, outcome = decimals_of(analysis, benchmark, family), analysis.outcome(benchmark)
    means = dict(zip(chosen.variant, chosen["mean"], strict=True))
    best = best_of(means, outcome.better, digits)
    counts = chosen["n"].astype(int)
    return {
        variant: f"{bold(f'{mean:.{digits}f}', variant in best)}{spread(sd, digits)}"
        + ("" if _is_even(analysis) else f" ({n})")
        for variant, mean, sd, n in zip(chosen.variant, chosen["mean"], chosen["sd"], counts, strict=True)
    }


def _every_seed(analysis: Analysis) -> str:
    """Every single score."""
    seeds = sorted(analysis.runs.seed.unique())
    scores = analysis.runs.set_index(["benchmark", "family", "variant", "seed"]).score.to_dict()
    rows = []
    for benchmark in by_standing(analysis):
        for family in (name for name in analysis.families if name in analysis.scopes(benchmark)):
            digits = decimals_of(analysis, benchmark, family)
            for variant in analysis.variants:
                values = [scores.get((benchmark, family, variant, seed)) for seed in seeds]
                shown = ["-" if value is None else f"{value:.{digits}f}" for value in values]
                rows.append([title(benchmark), family_label(family), f"`{variant}`", *shown])
    return table(["outcome", analysis.stratum, analysis.noun, *(f"seed {seed}" for seed in seeds)], rows)


def tasks_section(analysis: Analysis) -> str:
    """Means per task, tasks down and variants across; empty when the source names no tasks."""
    parts = []
    for benchmark in [*by_standing(analysis), *analysis.not_compared]:
        tasks = analysis.tasks[analysis.tasks.benchmark == benchmark]
        if set(tasks.task) == {SINGLE_TASK} or benchmark.name == HELD_OUT:
            continue
        for family in (name for name in analysis.families if name in set(tasks.family)):
            baselines = analysis.source.baselines.get(benchmark.name, {})
            named = f"{title(benchmark)}, {family_label(family)}"
            if benchmark in analysis.not_compared:
                named += " (in its own unit, not compared)"
            directions = {name: analysis.direction(benchmark, name) for name in tasks.metric.unique()}
            of_family = tasks[tasks.family == family]
            parts.append(details(named, _task_table(of_family, analysis.variants, baselines, directions)))
    if not parts:
        return ""
    text = (
        "Mean over seeds, the best in bold. Untested: among many tasks some best is luck. A metric without "
        "an arrow is one of which nothing says which scores are better."
    )
    if analysis.source.baselines:
        text += (
            " *Constant answer* is what the one answer scores that does best on the training set: for "
            "accuracy the majority class; of lm-eval's tasks with choices it is a guess."
        )
    return "\n\n".join(["## Tasks", text, *parts])


def _task_table(
    tasks: pd.DataFrame,
    variants: Sequence[Level],
    baselines: Mapping[str, Mapping[str, float]],
    directions: Mapping[str, Better | None],
) -> str:
    rows = []
    for (group, task, metric), arms in tasks.groupby(["group", "task", "metric"], sort=True):
        means = dict(zip(arms.variant, arms["mean"], strict=True))
        better, places = directions[metric], decimals(str(metric))
        best = best_of(means, better, places)
        shown = [
            bold(f"{means[name]:.{places}f}", name in best) if name in means else "-" for name in variants
        ]
        pointed = f"{str(metric).replace('_', ' ')} {ARROWS[better] if better else ''}".strip()
        row = [str(group), str(task), pointed, *shown]
        if baselines:
            constant = baselines.get(str(task), {}).get(str(metric))
            row.append("-" if constant is None else f"{constant:.1f}")
        rows.append(row)
    header = ["group", "task", "metric", *(f"`{name}`" for name in variants)]
    return table([*header, "constant answer"] if baselines else header, rows)


def parts_section(analysis: Analysis, context: Context) -> str:
    """A heat map of every benchmark with parts and its numbers, folded away."""
    bodies = []
    for benchmark in by_standing(analysis):
        chosen = {(c.part, c.contrast): c for c in analysis.parts if c.benchmark == benchmark}
        if not chosen:
            continue
        contrasts = list(dict.fromkeys(contrast for _, contrast in chosen))
        rows = []
        for part in dict.fromkeys(part for part, _ in chosen):
            found = [chosen[part, contrast] for contrast in contrasts]
            rows.append([str(part), *map(_cell, found)])
        header = ["", *(f"`{contrast.compared}`" for contrast in contrasts)]
        unit = unit_name(analysis.outcome(benchmark).unit) or "its own unit"
        body = [context.figure_of("heat-map", analysis, benchmark), table(header, rows)]
        summary = f"{title(benchmark)}: differences in {unit} (corrected p)"
        bodies.append(details(summary, "\n\n".join(filter(None, body))))
    if not bodies:
        return ""
    text = (
        f"Differences to `{analysis.baseline}`, averaged over {analysis.strata}. P-values are corrected over "
        "all differences of an outcome (Benjamini and Hochberg), so that of those shown (bold) no more than "
        f"{analysis.inference.level:.0%} are expected to be false."
    )
    return "\n\n".join(["## By phenomenon", text, *bodies])


def _cell(found: Comparison) -> str:
    return bold(f"{difference(found)} ({p_value(found.p_bh)})", found.is_different)
