"""Differences by phenomenon, or by task where a benchmark has no phenomena, and every task's scores.

They are described and not tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from report.analysis import Analysis
from report.document.markdown import (
    ARROWS,
    details,
    difference,
    family_label,
    figure_names,
    table,
    title,
    unit_name,
)
from report.figures import style
from report.part import Draw, Page, Part, Section
from report.parts.comparisons import comparison_table
from report.significance.arms import ArmTable, Key, arms_in_order
from report.significance.axes import Benchmark
from report.significance.comparison import Comparison, compare_arms
from report.significance.factor import Contrast
from report.verdicts.findings import by_standing
from scores.metrics import Metric
from scores.run_scores import SINGLE_TASK, decimals
from scores.suites import HELD_OUT

SIZES = ("benchmark", "part", "contrast", "family", "estimate", "standard_error", "df", "unit", "better",
         "num_runs_plus", "num_runs_minus")  # fmt: skip
"""Columns of differences that are not tested."""
# Vermilion to blue through white; few enough steps to be drawn as shapes, not as an embedded picture.
COLOURS = LinearSegmentedColormap.from_list("worse-better", [style.VERMILION, "#ffffff", style.BLUE], N=41)
UNKNOWN = "#d0d0d0"
CELL_HEIGHT_IN = 0.26
AROUND_IN = 1.9  # title, names across, colour scale and its label
Differences = Mapping[Benchmark, tuple[Comparison, ...]]
"""Every variant and the baseline on every part, averaged over families, where there are several parts."""


def compute(analysis: Analysis) -> Differences | None:
    """Compare on every part; None where no benchmark names its tasks."""
    if not _with_tasks(analysis):
        return None
    tables = part_tables(part_scores(analysis.scores_of_tasks), analysis.metrics)
    contrasts = [Contrast((name,), (analysis.baseline,)) for name in analysis.others]
    return {
        benchmark: tuple(
            compare_arms(arms, contrast, arms.scopes()[0], analysis.inference)
            for arms in tables[benchmark]
            for contrast in contrasts
        )
        for benchmark in by_standing(analysis)
        if benchmark in tables
    }


def _with_tasks(analysis: Analysis) -> list[Benchmark]:
    """Benchmarks that say what their tasks are, with those that are not compared."""
    with_tasks = set(analysis.tasks[analysis.tasks.task != SINGLE_TASK].benchmark)
    order = [*by_standing(analysis), *analysis.not_compared]
    return [benchmark for benchmark in order if benchmark in with_tasks and benchmark.name != HELD_OUT]


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


def part_tables(parts: pd.DataFrame, outcomes: Mapping[Benchmark, Metric]) -> dict[Benchmark, list[ArmTable]]:
    """Return the runs of every part of every benchmark; chance may differ between parts.

    Args:
        parts: What ``part_scores`` returns.
        outcomes: What the scores of each benchmark are.
    """
    runs: dict[tuple[Benchmark, str], dict[Key, pd.Series]] = {}
    for (benchmark, part, *arm), scores in arms_in_order(parts, ["benchmark", "part", "family", "variant"]):
        runs.setdefault((benchmark, str(part)), {})[tuple(arm)] = scores
    tables: dict[Benchmark, list[ArmTable]] = {}
    for (benchmark, part), arms in runs.items():
        outcome = replace(outcomes[benchmark], chance=None)
        tables.setdefault(benchmark, []).append(ArmTable(arms, benchmark, part, outcome))
    return tables


def section(analysis: Analysis, differences: Differences, page: Page) -> Section:
    """A heat map and the differences of each benchmark, then the scores of its tasks, each folded away."""
    names, folds = figure_names("heat-map", analysis.benchmarks), []
    for benchmark, comparisons in differences.items():
        unit = unit_name(analysis.metric(benchmark).unit) or "its own unit"
        body = [page.figure(names[benchmark]), _differences(comparisons)]
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


def _by_part(comparisons: Sequence[Comparison], value: Callable[[Comparison], Any]) -> pd.DataFrame:
    """Arrange a value of each comparison: parts down, variants across, both in their order."""
    cells: dict[str, dict[str, Any]] = {}
    for c in comparisons:
        cells.setdefault(c.contrast.compared, {})[str(c.part)] = value(c)
    return pd.DataFrame(cells)


def _differences(comparisons: Sequence[Comparison]) -> str:
    cells = _by_part(comparisons, difference)
    rows = [list(map(str, row)) for row in cells.itertuples(name=None)]
    return table(["", *(f"`{name}`" for name in cells.columns)], rows)


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


def figures(analysis: Analysis, differences: Differences) -> Mapping[str, Draw]:
    """Draw a heat map of each benchmark."""
    names = figure_names("heat-map", analysis.benchmarks)
    return {
        names[benchmark]: partial(draw_heat_map, analysis, comparisons)
        for benchmark, comparisons in differences.items()
    }


def tables(analysis: Analysis, differences: Differences) -> Mapping[str, pd.DataFrame]:
    """Return every difference on a part."""
    by_benchmark = [c for benchmark in sorted(differences) for c in differences[benchmark]]
    return {"phenomena": comparison_table(by_benchmark).reindex(columns=SIZES)}


def draw_heat_map(analysis: Analysis, comparisons: Sequence[Comparison]) -> tuple[Figure, str] | None:
    """Draw the difference to the baseline in every part of a benchmark; nothing for fewer than two parts.

    The longer list stands down the page, so that a narrow screen shows whole rows. Numbers are in the table
    of the page.
    """
    estimates = _by_part(comparisons, lambda c: np.nan if c.estimate is None else c.estimate)
    if len(estimates) < 2:
        return None
    first = comparisons[0]
    estimates = estimates.reindex(columns=[str(x) for x in analysis.variants if str(x) in estimates])
    unit = {"percent": "percentage points"}.get(first.unit or "", unit_name(first.unit))
    label = f"difference to {analysis.baseline}{unit and f' ({unit})'}"
    alternative = (
        f"Heat map, {first.benchmark}: {label} in each of {len(estimates)} parts, "
        f"a value for each {analysis.noun}, {family_label(first.family)}; grey without scores"
    )
    cells = {f"{name}, {part}": float(x) for (part, name), x in estimates.stack().items()}  # type: ignore[misc]
    heading = style.titled(title(first.benchmark), style.extremes("", cells, "+.2g"), 60)
    standing = estimates if len(estimates) >= estimates.shape[1] else estimates.T
    return _heat_map(standing, label, heading), alternative


def _heat_map(estimates: pd.DataFrame, label: str, heading: str) -> Figure:
    """Draw one cell a number, with its sign where it is large, and the colour scale below."""
    names = [str(name) for name in estimates.columns]
    widest = max(map(style.text_width, names))
    is_upright = widest * len(names) > style.WIDTH_IN / 2
    figure = style.new_figure(CELL_HEIGHT_IN * len(estimates) + AROUND_IN + widest * is_upright)
    axes = figure.subplots()
    axes.set_facecolor(UNKNOWN)
    limit = _colour_limit(estimates.to_numpy())
    norm = Normalize(-limit, limit)
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(estimates), cmap=COLOURS, norm=norm, edgecolors="white", lw=0.8
    )
    for (row, column), value in np.ndenumerate(estimates):
        if abs(value) > limit / 4:  # a grey print has one grey for both ends of the scale
            axes.text(column + 0.5, row + 0.5, "+" if value > 0 else "-", ha="center", va="center")
    axes.set_title(heading)
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    axes.set_xticks(np.arange(len(names)) + 0.5, names, rotation=90 if is_upright else 0)
    axes.set_yticks(np.arange(len(estimates)) + 0.5, [str(name) for name in estimates.index])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(
        mesh, location="bottom", fraction=0.2 / figure.get_figheight(), aspect=30, extend="both"
    )
    bar.ax.set_xlabel(style.filled(f"{label}; grey: no scores", 60), fontsize=style.SMALL)
    return figure


def _colour_limit(estimates: np.ndarray) -> float:
    """Largest difference of the colour scale: four times the median one, so that one does not bleach all."""
    sizes = np.abs(estimates[np.isfinite(estimates)])
    return (min(float(sizes.max()), 4 * float(np.median(sizes))) if len(sizes) else 0.0) or 1.0


PART = Part(name="phenomena", compute=compute, section=section, figures=figures, tables=tables)
