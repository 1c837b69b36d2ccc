"""Differences to the baseline with their intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from eval.report.analysis import Analysis
from eval.report.figures.style import (
    GREY,
    SMALL,
    WIDTH_IN,
    add_legend,
    family_styles,
    filled,
    in_two_lines,
    new_figure,
    text_width,
)
from eval.report.markdown import difference, interval
from eval.report.names import family_label
from eval.significance.axes import Benchmark
from eval.significance.comparison import Comparison

ROW_IN = 0.21
USUAL_LABEL_IN = 1.3
MARGIN_COLOUR = "#dcebf5"


def draw_forest(analysis: Analysis, benchmark: Benchmark) -> tuple[Figure, str]:
    """Differences to the baseline with intervals, per variant: the average first, then each family."""
    scopes = analysis.scopes(benchmark)
    styles = family_styles([scope for scope in scopes if scope is not None])
    step = max(len(scopes) + 0.9, 2)  # rows per variant and the gap to the next
    labels = [in_two_lines(str(name)) for name in analysis.others]
    extra = max(0.0, max(map(text_width, labels)) * 1.1 - USUAL_LABEL_IN)  # bold is wider
    figure = new_figure(0.95 + ROW_IN * step * len(labels), WIDTH_IN + extra)
    axes = figure.subplots()
    limit = _axis_limit(analysis, benchmark)
    for place in range(len(labels)):
        if place % 2 == 0:
            axes.axhspan(place * step - 0.95, place * step + step - 0.95, color="#f3f3f3", lw=0, zorder=0)
        for offset, scope in enumerate(scopes):
            comparison, y = analysis.of(benchmark, scope)[place], place * step + offset
            _interval(axes, comparison, y, limit, *styles[scope])
            axes.text(
                1.02, y, interval_text(comparison), transform=axes.get_yaxis_transform(),
                va="center", ha="left", fontsize=SMALL - 0.5, color=styles[scope][0],
                fontweight="bold" if offset == 0 else "normal",
            )  # fmt: skip
    margin = _margin(analysis, benchmark)
    if margin is not None:
        axes.axvspan(-margin, margin, color=MARGIN_COLOUR, lw=0, zorder=0.5)
    axes.axvline(0, color=GREY, lw=1, zorder=1)
    axes.set_xlim(-limit, limit)
    axes.set_ylim(step * len(labels) - 0.95, -0.95)
    axes.locator_params(axis="x", nbins=7)
    axes.set_yticks([place * step + (len(scopes) - 1) / 2 for place in range(len(labels))])
    axes.set_yticklabels(labels, fontweight="bold")
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(
        filled(f"difference to {analysis.baseline} on {benchmark}", 40)
        + "\n(percentage points; right is better)"
    )
    add_legend(figure, _handles(analysis, scopes, styles))
    return figure, _alt(analysis, benchmark)


def _handles(analysis: Analysis, scopes, styles) -> list[Any]:
    handles: list[Any] = [
        Line2D([], [], color=styles[s][0], marker=styles[s][1], ms=5, lw=1.6, label=family_label(s))
        for s in scopes
    ]
    return [
        *handles,
        Line2D([], [], color=GREY, marker="o", lw=0, ms=5, label="shown to differ"),
        Line2D([], [], color=GREY, marker="o", mfc="white", lw=0, ms=5, label="not shown to differ"),
        Patch(color=MARGIN_COLOUR, lw=0, label="negligible"),
    ]


def _margin(analysis: Analysis, benchmark: Benchmark) -> float | None:
    return next((c.margin for c in analysis.primary(benchmark) if c.margin is not None), None)


def _axis_limit(analysis: Analysis, benchmark: Benchmark) -> float:
    """Reach of the axis on either side of zero; one very wide interval must not flatten all others."""
    chosen = [c for c in analysis.comparisons if c.benchmark == benchmark and c.estimate is not None]
    bounds = [c.largest_remaining for c in chosen if c.largest_remaining is not None]
    points = [abs(c.estimate) for c in chosen if c.estimate is not None]
    reach = min(max(bounds), 4 * float(np.median(bounds))) if bounds else 1.0
    return 1.06 * max([reach, *points, _margin(analysis, benchmark) or 0.0, 1e-6])


def _interval(axes: Axes, comparison: Comparison, y: float, limit: float, colour: str, marker: str) -> None:
    """Draw one estimate, filled where a difference is shown; an interval off the axis ends in an arrow."""
    if comparison.estimate is None:
        return
    if comparison.low is not None and comparison.high is not None:
        low, high = max(comparison.low, -limit), min(comparison.high, limit)
        axes.plot([low, high], [y, y], color=colour, lw=1.6, solid_capstyle="butt", zorder=2)
        for bound, edge, arrow in ((comparison.low, -limit, "<"), (comparison.high, limit, ">")):
            if abs(bound) > limit and np.sign(bound) == np.sign(edge):
                axes.plot(edge, y, arrow, color=colour, ms=5, clip_on=False, zorder=3)
    fill = colour if comparison.is_different else "white"
    axes.plot(comparison.estimate, y, marker, color=colour, mfc=fill, ms=5, zorder=4)


def interval_text(comparison: Comparison) -> str:
    """Write an estimate with its interval, or why there is none."""
    if comparison.estimate is None:
        return "not estimable"
    if comparison.low is None:
        return f"{difference(comparison)} (no interval)"
    return f"{difference(comparison)} {interval(comparison)}"


def _alt(analysis: Analysis, benchmark: Benchmark) -> str:
    said = [
        f"{variant} {interval_text(comparison).replace('[', '(').replace(']', ')').replace(', ', ' to ')}"
        for variant, comparison in zip(analysis.others, analysis.primary(benchmark), strict=True)
    ]
    scope = family_label(analysis.scopes(benchmark)[0])
    return (
        f"Forest plot, {benchmark}: difference to {analysis.baseline} in percentage points with "
        f"{analysis.confidence:.0%} intervals, {scope}: {'; '.join(said)}"
    )
