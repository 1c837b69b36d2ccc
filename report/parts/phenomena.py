"""Differences by phenomenon, or by task where a benchmark has no phenomena, and every task's scores.

They are described and not tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from report.analysis import Analysis
from report.document.markdown import (
    ARROWS,
    details,
    difference,
    family_label,
    figure_names,
    signed,
    table,
    title,
    unit_name,
)
from report.figures.crowd import in_drawn_order
from report.figures.style import BLUE, SMALL, VERMILION, WIDTH_IN, filled, new_figure, text_width
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
COLOURS = LinearSegmentedColormap.from_list("worse-better", [VERMILION, "#ffffff", BLUE], N=41)
UNKNOWN = "#d0d0d0"
CELL_HEIGHT_IN, WIDEST_CELL_IN, GAP_IN = 0.26, 0.95, 0.1
BELOW_IN = 0.95  # colour scale and its label
NARROWEST_IN = 4.6
NUMBER = SMALL - 0.5  # points
MOST_NUMBERS = 1000
"""Cells up to which numbers stand in them; those of more are in tables/phenomena.csv."""


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
        body = [
            page.figure(names[benchmark]),
            _differences(comparisons),
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


@dataclass(frozen=True)
class _Grid:
    """Cells to draw; a part that was not compared for a variant has none."""

    rows: Sequence[str]
    columns: Sequence[str]
    cells: Mapping[tuple[int, int], Comparison]
    """By row and column."""
    label: str
    """What the numbers are."""

    @property
    def left_in(self) -> float:
        """Inches that the names of rows take."""
        return max(map(text_width, self.rows)) + 3 * GAP_IN

    @property
    def cell_in(self) -> float:
        """Width of a cell in inches."""
        narrowest = max(text_width(_value(c), NUMBER) * 1.15 for c in self.cells.values()) + 0.1
        return min(max((WIDTH_IN - self.left_in - GAP_IN) / len(self.columns), narrowest), WIDEST_CELL_IN)

    @property
    def is_upright(self) -> bool:
        """Whether the names of columns are too long to stand beside each other."""
        return max(map(text_width, self.columns)) > self.cell_in - 0.06

    @property
    def size_in(self) -> tuple[float, float]:
        """Width and height of a figure in inches."""
        top = (max(map(text_width, self.columns)) if self.is_upright else 0.12) + 3 * GAP_IN
        width = self.left_in + self.cell_in * len(self.columns) + 2 * GAP_IN
        return max(width, NARROWEST_IN), top + CELL_HEIGHT_IN * len(self.rows) + BELOW_IN

    @property
    def values(self) -> np.ndarray:
        """Estimates by row and column; nan without one."""
        values = np.full((len(self.rows), len(self.columns)), np.nan)
        for place, comparison in self.cells.items():
            values[place] = np.nan if comparison.estimate is None else comparison.estimate
        return values


def draw_heat_map(analysis: Analysis, comparisons: Sequence[Comparison]) -> tuple[Figure, str] | None:
    """Draw the difference to the baseline in every part of a benchmark; nothing for fewer than two parts."""
    grid = _grid(analysis, comparisons)
    if grid is None:
        return None
    width, height = grid.size_in
    figure = new_figure(height, width)
    _draw(figure.subplots(), grid)
    first = comparisons[0]
    return figure, (
        f"Heat map, {first.benchmark}: {grid.label} in each of {len({c.part for c in comparisons})} parts, "
        f"a value for each {analysis.noun}, {family_label(first.family)}; grey without scores"
    )


def _grid(analysis: Analysis, comparisons: Sequence[Comparison]) -> _Grid | None:
    """Lay out the longer list down the page, so that a narrow screen shows whole rows."""
    parts = list(dict.fromkeys(str(c.part) for c in comparisons))
    compared = {c.contrast.plus[0] for c in comparisons}
    variants = [name for name in in_drawn_order(analysis) if name in compared]
    if len(parts) < 2 or not variants:
        return None
    first, names = comparisons[0], list(map(str, variants))
    unit = {"percent": "percentage points"}.get(first.unit or "", unit_name(first.unit))
    label = f"difference to {analysis.baseline}" + (f" ({unit})" if unit else "")
    cells = {(parts.index(str(c.part)), variants.index(c.contrast.plus[0])): c for c in comparisons}
    if len(parts) >= len(variants):
        return _Grid(parts, names, cells, label)
    return _Grid(names, parts, {(column, row): c for (row, column), c in cells.items()}, label)


def _draw(axes: Axes, grid: _Grid) -> None:
    """Draw cells, names of rows and columns, and the colour scale below."""
    values, (limit, is_capped) = grid.values, _colour_limit(grid)
    norm = Normalize(-limit, limit)
    axes.set_facecolor(UNKNOWN)
    axes.pcolormesh(np.ma.masked_invalid(values), cmap=COLOURS, norm=norm, edgecolors="white", lw=0.8)
    if len(grid.cells) <= MOST_NUMBERS:
        _numbers(axes, grid, norm, values)
    axes.set_xlim(0, len(grid.columns))
    axes.set_ylim(len(grid.rows), 0)
    axes.xaxis.tick_top()
    axes.set_xticks(np.arange(len(grid.columns)) + 0.5, grid.columns, rotation=90 if grid.is_upright else 0)
    axes.set_yticks(np.arange(len(grid.rows)) + 0.5, grid.rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(
        ScalarMappable(norm, COLOURS), ax=axes, orientation="horizontal", pad=0.04,
        fraction=0.11 / grid.size_in[1], aspect=30, extend="both" if is_capped else "neither",
    )  # fmt: skip
    bar.ax.locator_params(axis="x", nbins=6)
    bar.ax.set_xlabel(filled(f"{grid.label}; grey: no scores", 60), fontsize=SMALL)


def _colour_limit(grid: _Grid) -> tuple[float, bool]:
    """Largest difference of the colour scale, and whether cells exceed it: one must not bleach all others."""
    sizes = np.abs(grid.values[np.isfinite(grid.values)])
    if not len(sizes):
        return 1.0, False
    smallest = 10.0 ** -_digits(next(iter(grid.cells.values())))
    limit = max(min(float(sizes.max()), 4 * float(np.median(sizes))), smallest)
    return limit, float(sizes.max()) > limit


def _numbers(axes: Axes, grid: _Grid, norm: Normalize, values: np.ndarray) -> None:
    """Write each difference into its cell."""
    for (row, column), comparison in grid.cells.items():
        is_known = np.isfinite(values[row, column])
        red, green, blue, _ = COLOURS(norm(values[row, column])) if is_known else (1,) * 4
        colour = "white" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.45 else "black"
        place = column + 0.5, row + 0.53
        axes.text(*place, _value(comparison), ha="center", va="center", fontsize=NUMBER, color=colour)


def _digits(comparison: Comparison) -> int:
    return 1 if comparison.metric.is_percentage else comparison.digits


def _value(comparison: Comparison) -> str:
    return signed(comparison.estimate, _digits(comparison))


PART = Part(name="phenomena", compute=compute, section=section, figures=figures, tables=tables)
