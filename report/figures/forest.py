"""Differences to the baseline, those of primary comparisons with their simultaneous intervals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from report.analysis import Analysis
from report.document.markdown import difference, family_label, interval, unit_name
from report.figures import style
from report.significance.axes import Benchmark
from report.significance.comparison import Comparison
from report.verdicts.findings import by_standing, place, shown_first, tally

ROW_IN = 0.19
BELOW_IN = 0.85  # ticks, unit and arrow
TITLE_IN = 0.45
USUAL_LABEL_IN = 1.3
MARGIN_COLOUR = "#dcebf5"
PALE: dict[str, Any] = {"alpha": 0.45, "ms": 5, "mew": 0}
"""Look of an exploratory estimate, which is neither filled nor hollow."""
GAP = 0.7  # rows between two variants
WIDE = 4
"""Times the median half-width, beyond which intervals end in arrows: one must not flatten the rest."""


def draw_forests(analysis: Analysis) -> tuple[Figure, str]:
    """Draw the metrics of the first screen beside each other."""
    benchmarks = shown_first(analysis)
    if len(benchmarks) < 2:
        return draw_forest(analysis, benchmarks[0])
    labels = _labels(analysis)
    figure = style.new_figure(_height(analysis), style.WIDTH_IN + _extra(labels))
    grid = figure.subplots(1, len(benchmarks), sharey=True)
    for axes, benchmark in zip(grid, benchmarks, strict=True):
        _draw(axes, analysis, benchmark, with_numbers=False)
        axes.set_title(_title(analysis, benchmark, 48 // len(benchmarks)))
    _label_variants(grid[0], labels, _step(analysis))
    style.add_legend(figure, _handles(analysis, benchmarks), is_below=True)
    return figure, _alternative_text(analysis, benchmarks)


def draw_forest(analysis: Analysis, benchmark: Benchmark) -> tuple[Figure, str]:
    """Draw one metric: for each variant the average over families first, then each family."""
    panel = forest_panel(analysis, benchmark)
    figure = style.new_figure(panel.height, panel.width)
    panel.draw(figure.subplots())
    style.add_legend(figure, panel.handles, is_below=True)
    return figure, _alternative_text(analysis, [benchmark])


def forest_panel(analysis: Analysis, benchmark: Benchmark) -> style.Panel:
    """Return the forest of one metric, its numbers beside it."""
    labels = _labels(analysis)

    def draw(axes: Axes) -> None:
        _draw(axes, analysis, benchmark, with_numbers=True)
        axes.set_title(_title(analysis, benchmark, 48))
        _label_variants(axes, labels, _step(analysis))

    return style.Panel(
        draw, _handles(analysis, [benchmark]), _height(analysis), style.WIDTH_IN + _extra(labels)
    )


def _labels(analysis: Analysis) -> list[str]:
    return [style.in_two_lines(str(level)) for level in analysis.others]


def _step(analysis: Analysis) -> float:
    """Rows from one variant to the next, alike for all metrics."""
    return max(len(analysis.families) + (len(analysis.families) > 1), 1) + GAP


def _height(analysis: Analysis) -> float:
    return BELOW_IN + TITLE_IN + ROW_IN * _step(analysis) * len(analysis.others)


def _extra(labels: Sequence[str]) -> float:
    return max(0.0, max(map(style.text_width, labels)) * 1.1 - USUAL_LABEL_IN)  # bold is wider


def _draw(axes: Axes, analysis: Analysis, benchmark: Benchmark, with_numbers: bool) -> None:
    """Draw the rows of one metric, with the margin shaded."""
    order, step = analysis.others, _step(analysis)
    scopes, styles = analysis.scopes(benchmark), style.family_styles(analysis.families)
    rows = [
        (order.index(c.contrast.plus[0]) * step + scopes.index(c.family), c)
        for c in _shown(analysis, [benchmark])
    ]
    limits = _axis_limits([c for _, c in rows])
    for number in range(0, len(order), 2):
        axes.axhspan(number * step - 0.85, (number + 1) * step - 0.85, color="#f3f3f3", lw=0, zorder=0)
    margin = analysis.metric(benchmark).margin
    if margin is not None:
        axes.axvspan(-margin, margin, color=MARGIN_COLOUR, lw=0, zorder=0.5)
    for y, comparison in rows:
        colour, marker = styles[comparison.family]
        _draw_interval(axes, y, comparison, limits, colour, marker)
        if with_numbers:
            axes.text(
                1.035, y, interval_text(comparison), transform=axes.get_yaxis_transform(), va="center",
                ha="left", fontsize=style.SMALL - 0.5, color=colour,
            )  # fmt: skip
    axes.axvline(0, color=style.GREY, lw=1, zorder=1)
    axes.set_xlim(limits)
    axes.set_ylim(step * len(order) - 0.85, -0.85)
    better = "better →" if analysis.metric(benchmark).better == "higher" else "← better"
    axes.set_xlabel(
        f"{style.filled(difference_label(analysis, benchmark), 45 if with_numbers else 24)}\n{better}"
    )
    axes.locator_params(axis="x", nbins=7 if with_numbers else 5)


def difference_label(analysis: Analysis, benchmark: Benchmark) -> str:
    """Name what is drawn of a metric, with its unit: ``difference to gelu (nats)``."""
    unit = unit_name(analysis.metric(benchmark).unit)
    return f"difference to {analysis.baseline}{f' ({unit})' if unit else ''}"


def _title(analysis: Analysis, benchmark: Benchmark, characters: int) -> str:
    """Say over a metric's rows what was found on it: verdicts, without claims the least and the greatest."""
    scope = analysis.scopes(benchmark)[0]
    estimates = {c.contrast.compared: c.estimate for c in analysis.of(benchmark, scope)}
    found = tally(analysis, benchmark) or style.extremes(family_label(scope), estimates, "+.2g")
    return style.titled(place(analysis, benchmark), found, characters)


def _axis_limits(comparisons: Sequence[Comparison]) -> tuple[float, float]:
    """Ends of the axis: zero, margins and estimates lie within, and all intervals but the far ends of few."""
    bounds = np.array([c.interval for c in comparisons if c.is_primary and c.interval]).reshape(-1, 2)
    reach = WIDE * float(np.median(np.abs(bounds).max(1))) if len(bounds) else 0.0
    inside = [sign * (c.margin or 0.0) for c in comparisons for sign in (-1, 1)]
    inside += [*np.clip(bounds, -reach, reach).ravel(), *(c.estimate or 0.0 for c in comparisons)]
    room = 0.03 * (max(inside) - min(inside)) or 1e-6
    return min(inside) - room, max(inside) + room


def _draw_interval(
    axes: Axes, y: float, comparison: Comparison, limits: tuple[float, float], colour: str, marker: str
) -> None:
    """Draw an estimate, filled where it differs significantly; an exploratory one pale, by itself."""
    if comparison.estimate is None:
        return
    if not comparison.is_primary:
        axes.plot(comparison.estimate, y, marker, color=colour, zorder=4, **PALE)
        return
    if comparison.interval is not None:
        ends = np.array(comparison.interval)
        axes.plot(shown := np.clip(ends, *limits), [y] * 2, color=colour, lw=1.4, zorder=2)
        for bound, edge, arrow in zip(ends, shown, "<>", strict=True):
            mark, size = ("|", 6) if bound == edge else (arrow, 5)
            axes.plot(edge, y, mark, color=colour, ms=size, clip_on=False, zorder=3)
    fill = colour if comparison.is_different else "white"
    axes.plot(comparison.estimate, y, marker, color=colour, mfc=fill, ms=5, zorder=4)


def _label_variants(axes: Axes, labels: Sequence[str], step: float) -> None:
    axes.set_yticks([number * step + (step - GAP - 1) / 2 for number in range(len(labels))])
    axes.set_yticklabels(labels, fontweight="bold")
    axes.tick_params(axis="y", length=0)


def _shown(analysis: Analysis, benchmarks: Sequence[Benchmark]) -> list[Comparison]:
    return [c for b in benchmarks for scope in analysis.scopes(b) for c in analysis.of(b, scope)]


def _handles(analysis: Analysis, benchmarks: Sequence[Benchmark]) -> list[Any]:
    styles, shown = style.family_styles(analysis.families), _shown(analysis, benchmarks)
    drawn = {c.family for c in shown if c.estimate is not None}
    scopes = [scope for scope in (None, *analysis.families) if scope in drawn]
    handles: list[Any] = [
        Line2D([], [], color=styles[s][0], marker=styles[s][1], ms=5, lw=1.4, label=family_label(s))
        for s in scopes
    ]
    point = partial(Line2D, [], [], color=style.GREY, marker="o", lw=0)
    if any(c.is_primary for c in shown):
        handles += [
            point(ms=5, label="significantly different"),
            point(ms=5, mfc="white", label="not significantly different"),
        ]
    if not all(c.is_primary for c in shown):
        handles.append(point(**PALE, label="exploratory, no verdict"))
    if any(c.margin is not None for c in shown):
        handles.append(Patch(color=MARGIN_COLOUR, lw=0, label="equivalence margin"))
    return handles


def interval_text(comparison: Comparison) -> str:
    """Write an estimate with its interval, or why there is none."""
    if comparison.estimate is None:
        return "not estimable"
    if not comparison.is_primary:
        return difference(comparison)
    return f"{difference(comparison)} {interval(comparison) if comparison.interval else '(no interval)'}"


def _alternative_text(analysis: Analysis, benchmarks: Sequence[Benchmark]) -> str:
    """Say in one sentence what is drawn; the numbers are in the table."""
    metrics = ", ".join(place(analysis, benchmark) for benchmark in benchmarks)
    is_tested = any(c.is_primary for c in _shown(analysis, benchmarks))
    intervals = f"with simultaneous {analysis.confidence:.0%} intervals" if is_tested else "without intervals"
    return (
        f"Forest plot of {metrics}: difference of {len(analysis.others)} {analysis.noun}s to "
        f"{analysis.baseline}, in the order of {place(analysis, by_standing(analysis)[0])}, {intervals}."
    )
