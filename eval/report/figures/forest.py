"""Differences to the baseline with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from eval.report.analysis import Analysis
from eval.report.document.markdown import difference, interval, unit_name
from eval.report.document.names import family_label, loss_of
from eval.report.figures.crowd import others_in_drawn_order
from eval.report.figures.style import (
    GREY,
    SMALL,
    WIDTH_IN,
    Panel,
    add_legend,
    family_styles,
    filled,
    in_two_lines,
    new_figure,
    text_width,
)
from eval.report.verdicts.findings import place
from eval.report.verdicts.ranking import families_differ, shown_first
from eval.significance.axes import Benchmark, Family
from eval.significance.comparison import Comparison

ROW_IN = 0.19
BELOW_IN = 0.85  # ticks, unit and arrow
USUAL_LABEL_IN = 1.3
MARGIN_COLOUR = "#dcebf5"
GAP = 0.7  # rows between two variants
NEARLY = 1.3  # times the reach that an axis would have, within which all intervals are shown whole


class _Row(NamedTuple):
    """One comparison where it is drawn."""

    comparison: Comparison
    scope: Family | None
    y: float
    scale: float
    """What the comparison's numbers are multiplied by to share the axis."""


def draw_forests(analysis: Analysis) -> tuple[Figure, str]:
    """Draw the outcomes of the first screen beside each other."""
    benchmarks = shown_first(analysis)
    if len(benchmarks) < 2:
        return draw_forest(analysis, benchmarks[0])
    labels = [in_two_lines(str(name)) for name in others_in_drawn_order(analysis)]
    figure = new_figure(_height(analysis), WIDTH_IN + _extra(labels))
    drawn = figure.subplots(1, len(benchmarks), sharey=True)
    for axes, benchmark in zip(drawn, benchmarks, strict=True):
        _panel(axes, analysis, benchmark)
        axes.set_title(filled(place(analysis, benchmark), 48 // len(benchmarks)))
        axes.locator_params(axis="x", nbins=5)
    _label_variants(drawn[0], labels, _step(analysis))
    add_legend(figure, _handles(analysis))
    return figure, "; ".join(_alt(analysis, benchmark) for benchmark in benchmarks)


def draw_forest(analysis: Analysis, benchmark: Benchmark) -> tuple[Figure, str]:
    """Differences to the baseline with intervals, per variant: the average first, then each family."""
    panel = forest_panel(analysis, benchmark)
    figure = new_figure(panel.height, panel.width)
    panel.draw(figure.subplots())
    add_legend(figure, panel.handles)
    return figure, _alt(analysis, benchmark)


def forest_panel(analysis: Analysis, benchmark: Benchmark) -> Panel:
    """Return the forest of one outcome, its numbers beside it."""
    labels = [in_two_lines(str(name)) for name in others_in_drawn_order(analysis)]

    def draw(axes: Axes) -> None:
        for row in _panel(axes, analysis, benchmark):
            axes.text(
                1.02, row.y, interval_text(row.comparison), transform=axes.get_yaxis_transform(),
                va="center", ha="left", fontsize=SMALL - 0.5, color=_styles(analysis)[row.scope][0],
                fontweight="bold" if row.scope == analysis.scopes(benchmark)[0] else "normal",
            )  # fmt: skip
        axes.set_title(filled(place(analysis, benchmark), 40))
        axes.locator_params(axis="x", nbins=7)
        _label_variants(axes, labels, _step(analysis))

    return Panel(draw, _handles(analysis), _height(analysis), WIDTH_IN + _extra(labels))


def _step(analysis: Analysis) -> float:
    """Rows from one variant to the next, alike for all outcomes."""
    return max(len(analysis.families) + (len(analysis.families) > 1), 1) + GAP


def _height(analysis: Analysis) -> float:
    return BELOW_IN + 0.3 + ROW_IN * _step(analysis) * len(analysis.others)


def _extra(labels: Sequence[str]) -> float:
    return max(0.0, max(map(text_width, labels)) * 1.1 - USUAL_LABEL_IN)  # bold is wider


def _styles(analysis: Analysis) -> dict[Family | None, tuple[str, str]]:
    return family_styles(analysis.families)


def _rows(analysis: Analysis, benchmark: Benchmark) -> list[_Row]:
    scopes, step, order = analysis.scopes(benchmark), _step(analysis), others_in_drawn_order(analysis)
    return [
        _Row(c, scope, order.index(c.contrast.plus[0]) * step + offset, _scale(analysis, c))
        for offset, scope in enumerate(scopes)
        for c in analysis.of(benchmark, scope)
    ]


def _scale(analysis: Analysis, comparison: Comparison) -> float:
    """Turn a family's own unit into percent of the baseline's mean, where the average is in percent."""
    benchmark = comparison.benchmark
    if comparison.is_relative or not any(c.is_relative for c in analysis.overall(benchmark)):
        return 1.0
    arms = analysis.arms
    chosen = (arms.benchmark == benchmark) & (arms.family == comparison.family)
    base = arms[chosen & (arms.variant == analysis.baseline)]["mean"]
    return 100 / abs(float(base.iloc[0])) if len(base) else float("nan")


def _panel(axes: Axes, analysis: Analysis, benchmark: Benchmark) -> list[_Row]:
    """Draw the rows of one outcome, with the margin of each shaded."""
    rows, step = _rows(analysis, benchmark), _step(analysis)
    limit = _axis_limit(rows)
    for number in range(0, len(analysis.others), 2):
        axes.axhspan(number * step - 0.85, (number + 1) * step - 0.85, color="#f3f3f3", lw=0, zorder=0)
    for row in rows:
        if row.comparison.margin is not None:
            reach = row.comparison.margin * row.scale
            axes.barh(row.y, 2 * reach, 1.0, -reach, color=MARGIN_COLOUR, lw=0, zorder=0.5)
        _interval(axes, row, limit, *_styles(analysis)[row.scope])
    axes.axvline(0, color=GREY, lw=1, zorder=1)
    axes.set_xlim(-limit, limit)
    axes.set_ylim(step * len(analysis.others) - 0.85, -0.85)
    axes.set_xlabel(f"{_unit(analysis, benchmark)}\n{_better(analysis, benchmark)}")
    return rows


def _unit(analysis: Analysis, benchmark: Benchmark) -> str:
    first = analysis.overall(benchmark)[0]
    if first.is_relative:
        return f"% of {analysis.baseline}'s {loss_of(first.outcome)}"
    return unit_name(first.unit) or "difference"


def _better(analysis: Analysis, benchmark: Benchmark) -> str:
    return "better →" if analysis.outcome(benchmark).better == "higher" else "← better"


def _label_variants(axes: Axes, labels: Sequence[str], step: float) -> None:
    axes.set_yticks([number * step + (step - GAP - 1) / 2 for number in range(len(labels))])
    axes.set_yticklabels(labels, fontweight="bold")
    axes.tick_params(axis="y", length=0)


def _handles(analysis: Analysis) -> list[Any]:
    styles = _styles(analysis)
    scopes = [None, *analysis.families] if len(analysis.families) > 1 else list(analysis.families)
    handles: list[Any] = [
        Line2D([], [], color=styles[s][0], marker=styles[s][1], ms=5, lw=1.6, label=family_label(s))
        for s in scopes
    ]
    return [
        *handles,
        Line2D([], [], color=GREY, marker="o", lw=0, ms=5, label="shown to differ"),
        Line2D([], [], color=GREY, marker="o", mfc="white", lw=0, ms=5, label="not shown to differ"),
        Line2D([], [], color=GREY, lw=2.2, label=f"{analysis.confidence:.0%} alone"),
        Line2D([], [], color=GREY, lw=0.8, marker="|", ms=6, label="together"),
        Patch(color=MARGIN_COLOUR, lw=0, label="negligible"),
    ]


def _axis_limit(rows: Sequence[_Row]) -> float:
    """Reach of the axis on either side of zero; one very wide interval must not flatten all others."""
    known = [row for row in rows if row.comparison.estimate is not None]
    bounds = [
        r.scale * (r.comparison.largest_remaining or 0.0) for r in known if r.comparison.low is not None
    ]
    points = [r.scale * abs(r.comparison.estimate or 0.0) for r in known]
    margins = [r.scale * (r.comparison.margin or 0.0) for r in known]
    alone = [
        r.scale * max(abs(r.comparison.low), abs(r.comparison.high or 0.0)) for r in known if r.comparison.low
    ]
    # Early looks exclude hardly anything: their intervals end in arrows.
    ends = (
        (max(bounds), 4 * float(np.median(bounds)), 10 * float(np.median(alone)))
        if bounds and alone
        else (0.0,)
    )
    reach = max([min(ends), *points, *margins, 1e-6])
    whole = max(bounds, default=0.0)
    return 1.06 * (whole if reach < whole < NEARLY * reach else reach)


def _interval(axes: Axes, row: _Row, limit: float, colour: str, marker: str) -> None:
    """Draw one estimate, filled where a difference is shown; an interval off the axis ends in an arrow."""
    comparison = row.comparison
    if comparison.estimate is None:
        return
    if comparison.low is not None and comparison.high is not None and comparison.interval is not None:
        alone = np.clip(np.array([comparison.low, comparison.high]) * row.scale, -limit, limit)
        axes.plot(alone, [row.y] * 2, color=colour, lw=2.2, solid_capstyle="butt", zorder=2)
        ends = np.array(comparison.interval) * row.scale
        axes.plot(np.clip(ends, -limit, limit), [row.y] * 2, color=colour, lw=0.8, zorder=2)
        axes.plot(ends[abs(ends) <= limit], [row.y] * int(sum(abs(ends) <= limit)), "|", color=colour, ms=6)
        for bound, edge, arrow in zip(ends, (-limit, limit), "<>", strict=True):
            if abs(bound) > limit and np.sign(bound) == np.sign(edge):
                axes.plot(edge, row.y, arrow, color=colour, ms=5, clip_on=False, zorder=3)
    fill = colour if comparison.is_different else "white"
    axes.plot(comparison.estimate * row.scale, row.y, marker, color=colour, mfc=fill, ms=5, zorder=4)


def interval_text(comparison: Comparison) -> str:
    """Write an estimate with its interval, or why there is none."""
    if comparison.estimate is None:
        return "not estimable"
    if comparison.low is None:
        return f"{difference(comparison)} (no interval)"
    return f"{difference(comparison)} {interval(comparison)}"


def _alt(analysis: Analysis, benchmark: Benchmark) -> str:
    """Say the numbers of the primary scope, and those of each family where families differ."""
    primary = analysis.overall(benchmark)
    disputed = {c.contrast for c in primary if families_differ(c)}
    within = [
        c
        for family in analysis.scopes(benchmark)[1:]
        for c in analysis.of(benchmark, family)
        if c.contrast in disputed
    ]
    said = [
        f"{c.contrast.compared} {'' if c.family is None else f'in {family_label(c.family)} '}{_in_text(c)}"
        for c in (*primary, *within)
    ]
    scope = family_label(analysis.scopes(benchmark)[0])
    what = f"{place(analysis, benchmark)} ({analysis.outcome(benchmark).better} is better)"
    return (
        f"Forest plot, {what}: difference to {analysis.baseline} with {analysis.confidence:.0%} intervals, "
        f"{scope}: {'; '.join(said)}"
    )


def _in_text(comparison: Comparison) -> str:
    unit = "" if comparison.is_relative else f" {unit_name(comparison.unit)}".rstrip()
    return interval_text(comparison).replace("[", "(").replace("]", ")").replace(", ", " to ") + unit
