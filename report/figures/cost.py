"""Scores against what variants cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.optimize import isotonic_regression

from report.analysis import Analysis
from report.document.names import family_label, title
from report.figures.crowd import NOT_SHOWN, VERDICT_COLOURS, in_words, is_crowd
from report.figures.style import (
    GREY,
    SMALL,
    Panel,
    VariantStyle,
    add_legend,
    filled,
    label_log_axis,
    panels,
    variant_styles,
)
from report.significance.axes import Benchmark, Family, Level
from report.verdicts.ranking import by_standing
from scores.suites import HELD_OUT

Cost = tuple[str, float, str]
COSTS: tuple[Cost, ...] = (
    ("num_parameters", 1e6, "parameters (millions)"),
    ("flops_per_token", 1e6, "forward MFLOP per token"),
    ("train_hours", 1 / 60, "training time (min)"),
)
"""What a figure has a panel of: field of a run's facts, divisor, label of the axis."""
PANEL_IN, CROWD_IN = 2.1, 3.2
NAME_IN, AROUND_IN = 0.14, 0.85
"""Height of a name beside a crowd's panel, and what the panel's title and label take."""
LOG_FROM = 6
"""Largest over smallest cost from which on the axis is logarithmic."""
LEAST_SPAN = 0.1
"""Of a linear axis, as a share of its middle: costs that are all but equal must not look far apart."""
BY_VERDICT = {
    words: VariantStyle(colour, "o", words == NOT_SHOWN, "-") for words, colour in VERDICT_COLOURS.items()
}
"""How a variant of a crowd looks."""


def leading_loss(analysis: Analysis) -> Benchmark:
    """Return the held-out loss, else the leading metric."""
    held_out = Benchmark(HELD_OUT)
    return held_out if held_out in analysis.benchmarks else by_standing(analysis)[0]


class Point(NamedTuple):
    """A variant in a panel."""

    variant: Level
    cost: float
    score: float
    error: float
    """Standard error of the mean score; nan of one run."""


def draw_cost(analysis: Analysis, arms: pd.DataFrame) -> tuple[Figure, str] | None:
    """Draw a panel for each family and each cost that is known of two of its variants.

    Args:
        analysis: What was computed.
        arms: family, variant and mean costs, one column each.
    """
    benchmark = leading_loss(analysis)
    places = [(family, cost) for family in analysis.families for cost in COSTS]
    shown = [(*place, points) for place in places if (points := _points(analysis, arms, benchmark, *place))]
    if not shown:
        return None
    has_names = is_crowd(analysis)
    looks = [_styles(analysis, benchmark, family) for family, *_ in shown]
    most = max(len(_named(points, styles)) for (*_, points), styles in zip(shown, looks, strict=True))
    crowd_in = max(CROWD_IN, AROUND_IN + NAME_IN * most)
    figure, drawn = panels(len(shown), crowd_in if has_names else PANEL_IN, columns=1 if has_names else 3)
    for axes, (family, cost, points), styles in zip(drawn, shown, looks, strict=True):
        _draw(axes, points, styles, analysis.baseline)
        axes.set_title(filled(family_label(family), 30))
        axes.set_xlabel(filled(cost[2], 25))
        if has_names:
            _write_names(axes, _named(points, styles), styles)
    figure.supylabel(filled(_label(analysis, benchmark), 30), fontsize=9.5)
    add_legend(figure, _handles(analysis, {point.variant for _, _, points in shown for point in points}))
    families = ", ".join(dict.fromkeys(family_label(family) for family, _, _ in shown))
    return figure, (
        f"Scatter plots of {_label(analysis, benchmark)}, with its standard error over seeds, against costs: "
        f"a panel for each cost of {families}; the dashed line is the mean of {analysis.baseline}"
    )


def cost_panel(
    analysis: Analysis, arms: pd.DataFrame, benchmark: Benchmark, family: Family, cost: Cost
) -> Panel | None:
    """Return a metric against one cost in one family; None where the cost of no two variants is known.

    Args:
        analysis: What was computed.
        arms: As of ``draw_cost``.
        benchmark: The metric.
        family: The family.
        cost: One of ``COSTS``.
    """
    points, styles = _points(analysis, arms, benchmark, family, cost), variant_styles(analysis.variants)
    if not points:
        return None

    def draw(axes: Axes) -> None:
        _draw(axes, points, styles, analysis.baseline)
        axes.set_title(filled(family_label(family), 40))
        axes.set_xlabel(cost[2])
        axes.set_ylabel(filled(_label(analysis, benchmark), 36))

    return Panel(draw, [_handle(str(x.variant), styles[x.variant]) for x in points], CROWD_IN)


def _points(
    analysis: Analysis, arms: pd.DataFrame, benchmark: Benchmark, family: Family, cost: Cost
) -> list[Point]:
    """Return the variants of a family with a score and a cost, unless there is one alone."""
    field, divisor, _ = cost
    of_family = arms[arms.family == family]
    costs = dict(zip(of_family.variant, of_family[field] / divisor, strict=True))
    runs = analysis.tables[benchmark].runs
    points = [
        Point(variant, costs[variant], float(scores.mean()), _standard_error(scores))
        for variant in analysis.variants
        if not np.isnan(costs.get(variant, np.nan))
        and len(scores := runs.get((family, variant), pd.Series()))
    ]
    return points if len(points) > 1 else []


def _standard_error(scores: pd.Series) -> float:
    return float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else float("nan")


def _styles(analysis: Analysis, benchmark: Benchmark, family: Family) -> dict[Level, VariantStyle]:
    """Look of each variant: its own, or in a crowd that of its verdict, on average where there is one."""
    if not is_crowd(analysis):
        return variant_styles(analysis.variants)
    scope = None if None in analysis.scopes(benchmark) else family
    comparisons = zip(analysis.others, analysis.of(benchmark, scope), strict=False)
    styles = {variant: BY_VERDICT[in_words(comparison)] for variant, comparison in comparisons}
    return {**styles, analysis.baseline: VariantStyle("black", "D", False, "-")}


def _draw(axes: Axes, points: Sequence[Point], styles: Mapping[Level, VariantStyle], baseline: Level) -> None:
    for variant, cost, score, error in points:
        style = styles[variant]
        axes.errorbar(cost, score, yerr=error, ls="", elinewidth=1, **style.points)
        if variant == baseline:
            axes.axhline(score, color=GREY, lw=0.9, ls="--", zorder=1)
    low, high = min(x.cost for x in points), max(x.cost for x in points)
    if high > LOG_FROM * low > 0:
        axes.set_xscale("log")
        axes.margins(x=0.08)
        label_log_axis(axes.xaxis)
    else:
        reach = max(0.6 * (high - low), LEAST_SPAN * abs(high + low) / 4) or 1.0
        axes.set_xlim((low + high) / 2 - reach, (low + high) / 2 + reach)
        axes.locator_params(axis="x", nbins=3)
    axes.margins(y=0.1)
    axes.locator_params(axis="y", nbins=5)
    axes.grid(color="#ececec", lw=0.6)
    axes.set_axisbelow(True)


def _named(points: Sequence[Point], styles: Mapping[Level, VariantStyle]) -> list[Point]:
    """Return those that differ, and the baseline, by score."""
    return sorted((x for x in points if styles[x.variant] != BY_VERDICT[NOT_SHOWN]), key=lambda x: x.score)


def _write_names(axes: Axes, named: Sequence[Point], styles: Mapping[Level, VariantStyle]) -> None:
    """Write names right of the panel, where they meet neither each other nor points."""
    low, high = axes.get_ylim()
    room = (CROWD_IN - AROUND_IN) / NAME_IN
    heights = keep_apart([x.score for x in named], (high - low) / max(len(named), room))
    line = {"arrowstyle": "-", "lw": 0.4, "alpha": 0.5, "shrinkA": 0, "relpos": (0, 0.5)}
    for x, y in zip(named, heights, strict=True):
        colour = styles[x.variant].colour
        axes.annotate(
            str(x.variant), (x.cost, x.score), (1.04, y), textcoords=axes.get_yaxis_transform(),
            va="center", fontsize=SMALL - 1, color=colour,
            arrowprops={**line, "color": colour},
        )  # fmt: skip


def keep_apart(heights: Sequence[float], gap: float) -> list[float]:
    """Move what stands at rising heights apart, as little as can be (least squares).

    With gaps taken off, heights must not fall: ``[0, 0, 5]`` with a gap of 2 is ``[0, -2, 1]``, of which
    isotonic regression makes ``[-1, -1, 1]``, and with the gaps put back ``[-1, 1, 5]``.
    """
    gaps = gap * np.arange(len(heights))
    return list(isotonic_regression(heights - gaps).x + gaps) if len(heights) else []


def _handles(analysis: Analysis, present: Collection[Level]) -> list[Line2D]:
    if is_crowd(analysis):
        return [_handle(f"{words} {analysis.baseline}", style) for words, style in BY_VERDICT.items()]
    styles = variant_styles(analysis.variants)
    return [_handle(str(name), styles[name]) for name in analysis.variants if name in present]


def _handle(name: str, style: VariantStyle) -> Line2D:
    return Line2D([], [], ls="", label=name, **style.points)


def _label(analysis: Analysis, benchmark: Benchmark) -> str:
    metric = analysis.metric(benchmark)
    unit = f" ({metric.unit})" if metric.unit else ""
    return f"mean {title(benchmark)}{unit}, {metric.better} is better"
