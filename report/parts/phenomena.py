"""Differences by phenomenon, or by task where a benchmark has no phenomena, and every task's scores.

They are described and not tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from report.analysis import Analysis, decimals_of
from report.document.markdown import ARROWS, details, difference, table, unit_name
from report.document.names import family_label, figure_names, title
from report.figures.heat_map import draw_heat_map
from report.part import Draw, Page, Part, Section
from report.parts.comparisons import comparison_table
from report.significance.arms import ArmTable, Key, arms_in_order
from report.significance.axes import Benchmark, Family, Level
from report.significance.comparison import Comparison, Inference, compare_arms
from report.significance.factor import Contrast
from report.verdicts.ranking import by_standing
from scores.metrics import Metric
from scores.run_scores import SINGLE_TASK, decimals
from scores.suites import HELD_OUT

SIZES = ("benchmark", "part", "contrast", "family", "estimate", "standard_error", "df", "unit", "better",
         "num_runs_plus", "num_runs_minus")  # fmt: skip
"""Columns of differences that are not tested."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Phenomena:
    """Benchmarks by their parts: phenomena, else tasks."""

    differences: Mapping[Benchmark, tuple[Comparison, ...]]
    """Every variant and the baseline on every part, averaged over families, where there are several parts."""
    means: pd.DataFrame
    """benchmark, num_parts, family, variant, n, mean, sd: with every phenomenon weighed alike."""


def compute(analysis: Analysis) -> Phenomena | None:
    """Compare on every part; None where no benchmark names its tasks."""
    if not _with_tasks(analysis):
        return None
    parts = part_scores(analysis.scores_of_tasks)
    run_means = means_over_parts(parts, analysis.rows).groupby(
        ["benchmark", "num_parts", "family", "variant"]
    )
    compared = compare_parts(
        part_tables(parts, analysis.metrics), analysis.baseline, analysis.others, analysis.inference
    )
    return Phenomena(
        differences={
            name: own
            for name in by_standing(analysis)
            if (own := tuple(c for c in compared if c.benchmark == name))
        },
        means=run_means.score.agg(n="count", mean="mean", sd="std").reset_index(),
    )


def _with_tasks(analysis: Analysis) -> list[Benchmark]:
    """Benchmarks that say what their tasks are, with those that are not compared."""
    named = set(analysis.tasks[analysis.tasks.task != SINGLE_TASK].benchmark)
    order = [*by_standing(analysis), *analysis.not_compared]
    return [name for name in order if name in named and name.name != HELD_OUT]


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
    of_tasks = np.array([num_tasks[name] for name in parts.benchmark], dtype=int)
    run = ["benchmark", "family", "variant", "seed"]
    is_complete = parts.groupby(run)["part"].transform("nunique") == num_parts
    kept = parts.assign(num_parts=num_parts)[(num_parts < of_tasks) & is_complete]
    return kept.groupby(run, as_index=False).agg(score=("score", "mean"), num_parts=("num_parts", "first"))


def part_tables(parts: pd.DataFrame, metrics: Mapping[Benchmark, Metric]) -> dict[Benchmark, list[ArmTable]]:
    """Return the runs of every part of every benchmark; chance may differ between parts.

    Args:
        parts: What ``part_scores`` returns.
        metrics: What the scores of each benchmark are.
    """
    runs: dict[tuple[Benchmark, str], dict[Key, pd.Series]] = {}
    for (benchmark, part, *arm), scores in arms_in_order(parts, ["benchmark", "part", "family", "variant"]):
        runs.setdefault((benchmark, str(part)), {})[tuple(arm)] = scores
    tables: dict[Benchmark, list[ArmTable]] = {}
    for (benchmark, part), arms in runs.items():
        metric = replace(metrics[benchmark], chance=None)
        tables.setdefault(benchmark, []).append(ArmTable(arms, benchmark, part, metric))
    return tables


def compare_parts(
    parts: Mapping[Benchmark, Sequence[ArmTable]],
    baseline: Level,
    variants: Sequence[Level],
    inference: Inference,
) -> list[Comparison]:
    """Compare every variant with the baseline on every part, averaged over families.

    Args:
        parts: What ``part_tables`` returns.
        baseline: The variant that the others are compared with.
        variants: The others.
        inference: How.
    """
    return [
        compare_arms(arms, Contrast((name,), (baseline,)), arms.scopes()[0], inference)
        for benchmark in sorted(parts)
        for arms in parts[benchmark]
        for name in variants
    ]


def section(analysis: Analysis, phenomena: Phenomena, page: Page) -> Section:
    """A heat map and the differences of each benchmark, then the scores of its tasks, each folded away."""
    names, folds = figure_names("heat-map", analysis.benchmarks), []
    for benchmark, comparisons in phenomena.differences.items():
        unit = unit_name(analysis.metric(benchmark).unit) or "its own unit"
        body = [
            page.figure(names[benchmark]),
            _differences(comparisons),
            _means(analysis, phenomena, benchmark),
        ]
        folds.append(details(f"{title(benchmark)}: differences in {unit}", "\n\n".join(filter(None, body))))
    folds += [fold for benchmark in _with_tasks(analysis) for fold in _tasks(analysis, benchmark)]
    average = f", averaged over {analysis.strata}" if len(analysis.families) > 1 else ""
    text = f"Differences to `{analysis.baseline}`{average}, and means over seeds."
    if analysis.source.baselines:
        text += (
            " *Constant answer*: the score of the one answer that does best on the training set; for the "
            "tasks of lm-eval with choices, of a guess."
        )
    body = "\n\n".join([text, *folds])
    return Section(title="By phenomenon and task", summary="described, not tested", body=body)


def _differences(comparisons: Sequence[Comparison]) -> str:
    cells = {(c.part, c.contrast): difference(c) for c in comparisons}
    contrasts = dict.fromkeys(contrast for _, contrast in cells)
    parts = dict.fromkeys(part for part, _ in cells)
    rows = [[str(part), *(cells[part, contrast] for contrast in contrasts)] for part in parts]
    return table(["", *(f"`{contrast.compared}`" for contrast in contrasts)], rows)


def _means(analysis: Analysis, phenomena: Phenomena, benchmark: Benchmark) -> str:
    """Means with every phenomenon weighed alike, where phenomena have several tasks."""
    means = phenomena.means[phenomena.means.benchmark == benchmark]
    cells: dict[Family, dict[Level, str]] = {}
    for family, variant, mean in zip(means.family, means.variant, means["mean"], strict=True):
        digits = decimals_of(analysis, benchmark, family)
        cells.setdefault(family, {})[variant] = f"{mean:.{digits}f}"
    rows = [
        [family_label(family), *(of_family.get(name, "-") for name in analysis.variants)]
        for family, of_family in cells.items()
    ]
    names = [f"`{name}`" for name in analysis.variants]
    return table([f"mean of {means.num_parts.iloc[0]} phenomena", *names], rows) if rows else ""


def _tasks(analysis: Analysis, benchmark: Benchmark) -> Iterator[str]:
    """Means by task and metric, tasks down and variants across, one table a family."""
    tasks = analysis.tasks[analysis.tasks.benchmark == benchmark]
    note = " (in its own unit, not compared)" if benchmark in analysis.not_compared else ""
    for family in (name for name in analysis.families if name in set(tasks.family)):
        heading = f"{title(benchmark)}, {family_label(family)}: tasks{note}"
        yield details(heading, _task_table(analysis, benchmark, tasks[tasks.family == family]))


def _task_table(analysis: Analysis, benchmark: Benchmark, tasks: pd.DataFrame) -> str:
    constants = analysis.source.baselines.get(benchmark.name, {})
    rows = []
    for (group, task, metric), arms in tasks.groupby(["group", "task", "metric"], sort=True):
        means = dict(zip(arms.variant, arms["mean"], strict=True))
        better, places = analysis.direction(benchmark, str(metric)), decimals(str(metric))
        shown = [f"{means[name]:.{places}f}" if name in means else "-" for name in analysis.variants]
        pointed = f"{str(metric).replace('_', ' ')} {ARROWS[better] if better else ''}".strip()
        constant = constants.get(str(task), {}).get(str(metric))
        rows.append([str(group), str(task), pointed, *shown, "-" if constant is None else f"{constant:.1f}"])
    header = ["group", "task", "metric", *(f"`{name}`" for name in analysis.variants), "constant answer"]
    return table(header, rows) if constants else table(header[:-1], [row[:-1] for row in rows])


def figures(analysis: Analysis, phenomena: Phenomena) -> Mapping[str, Draw]:
    """Draw a heat map of each benchmark."""
    names = figure_names("heat-map", analysis.benchmarks)
    return {
        names[benchmark]: partial(draw_heat_map, analysis, comparisons)
        for benchmark, comparisons in phenomena.differences.items()
    }


def tables(analysis: Analysis, phenomena: Phenomena) -> Mapping[str, pd.DataFrame]:
    """Return every difference on a part, and means over phenomena."""
    compared = sorted((c for own in phenomena.differences.values() for c in own), key=lambda c: c.benchmark)
    sizes = comparison_table(compared).reindex(columns=SIZES)
    return {"phenomena": sizes, "means_over_phenomena": phenomena.means}


PART = Part(name="phenomena", compute=compute, section=section, figures=figures, tables=tables)
