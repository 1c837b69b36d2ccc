"""Quality against what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eval.report.analysis import Analysis
from eval.report.figures.style import (
    GREY,
    VariantStyle,
    add_legend,
    filled,
    label_log_axis,
    panels,
    variant_styles,
)
from eval.report.names import family_label
from eval.report.sections.context import title
from eval.report.standing import by_standing
from eval.significance.axes import Benchmark, Family, Level

# Field of RunFacts, divisor, and the axis' label.
COSTS = (
    ("num_parameters", 1e6, "parameters (millions)"),
    ("flops_per_token", 1e6, "forward MFLOP per token"),
    ("train_hours", 1, "training time (hours)"),
)
LOG_FROM = 6  # largest over smallest cost
LEAST_SPAN = 0.1  # of an axis, as a share of its middle
PANEL_IN = 1.55


@dataclass(frozen=True)
class _Point:
    """A variant's mean score, its standard error (nan for one run) and its mean costs by field."""

    variant: Level
    score: float
    error: float
    costs: dict[str, float]


def draw_cost(analysis: Analysis) -> tuple[Figure, str] | None:
    """Mean of the leading outcome against each cost known of two variants: costs down, families across."""
    benchmark = by_standing(analysis)[0]
    points = {family: _points(analysis, benchmark, family) for family in analysis.families}
    families = [family for family, known in points.items() if known]
    costs = [
        cost for cost in COSTS if any(sum(cost[0] in p.costs for p in known) > 1 for known in points.values())
    ]
    if not costs:
        return None
    pairs = [(cost, family) for cost in costs for family in families]
    columns = len(families) if len(families) > 1 else 2
    figure, drawn = panels(len(pairs), PANEL_IN, columns=columns, sharey="col")
    styles = variant_styles(analysis.variants)
    for place, (axes, ((field, divisor, label), family)) in enumerate(zip(drawn, pairs, strict=True)):
        _panel(axes, points[family], field, divisor, styles, analysis.baseline)
        axes.set_xlabel(filled(label, 50 // columns))
        if place < len(families):
            axes.set_title(filled(family_label(family), 20))
    figure.supylabel(_label(analysis, benchmark), fontsize=9.5)
    shown = {point.variant for known in points.values() for point in known}
    add_legend(figure, [_handle(str(name), styles[name]) for name in analysis.variants if name in shown])
    return figure, _alt(analysis, benchmark, families, [label for _, _, label in costs])


def _label(analysis: Analysis, benchmark: Benchmark) -> str:
    outcome = analysis.outcome(benchmark)
    unit = f" ({outcome.unit})" if outcome.unit else ""
    return f"mean {title(benchmark)}{unit}, {'higher' if outcome.better == 'higher' else 'lower'} is better"


def _points(analysis: Analysis, benchmark: Benchmark, family: Family) -> list[_Point]:
    """Average over the runs that were scored; a run without a folder has a score and no cost."""
    facts = {x.run_id: x for x in analysis.facts}
    scores = analysis.runs[(analysis.runs.benchmark == benchmark) & (analysis.runs.family == family)]
    points = []
    for variant in analysis.variants:
        runs = scores[scores.variant == variant]
        costs = {}
        for field, _, _ in COSTS:
            known = [value for x in runs.run_id if (value := getattr(facts.get(x), field, None)) is not None]
            if known:
                costs[field] = float(np.mean(known))
        if costs:
            points.append(_Point(variant, float(runs.score.mean()), _standard_error(runs.score), costs))
    return points


def _standard_error(scores: pd.Series) -> float:
    return float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else float("nan")


def _panel(
    axes: Axes,
    points: Sequence[_Point],
    field: str,
    divisor: float,
    styles: dict[Level, VariantStyle],
    baseline: Level,
) -> None:
    known = [point for point in points if field in point.costs]
    for point in known:
        x, style = point.costs[field] / divisor, styles[point.variant]
        if np.isfinite(point.error):
            axes.errorbar(x, point.score, yerr=point.error, color=style.colour, lw=1, zorder=2)
        axes.plot(
            x, point.score, style.marker, color=style.colour, ms=5.5, mew=1.3, zorder=3,
            mfc="white" if style.hollow else style.colour,
        )  # fmt: skip
        if point.variant == baseline:
            axes.axhline(point.score, color=GREY, lw=0.9, ls="--", zorder=1)
    values = [point.costs[field] / divisor for point in known]
    if values and min(values) > 0 and max(values) / min(values) > LOG_FROM:
        axes.set_xscale("log")
        axes.margins(x=0.08)
        label_log_axis(axes.xaxis)
    elif values:
        axes.set_xlim(*_limits(values))
        axes.locator_params(axis="x", nbins=4)
    axes.margins(y=0.1)
    axes.locator_params(axis="y", nbins=5)
    axes.grid(color="#ececec", lw=0.6)
    axes.set_axisbelow(True)


def _limits(values: Sequence[float]) -> tuple[float, float]:
    """Ends of a linear axis; costs that are all but equal must not look far apart."""
    middle = (min(values) + max(values)) / 2
    reach = max(0.6 * (max(values) - min(values)), LEAST_SPAN * abs(middle) / 2) or 1.0
    return middle - reach, middle + reach


def _handle(name: str, style: VariantStyle) -> Line2D:
    fill = "white" if style.hollow else style.colour
    return Line2D(
        [], [], color=style.colour, marker=style.marker, mfc=fill, mew=1.3, ms=5.5, lw=0, label=name
    )


def _alt(analysis: Analysis, benchmark: Benchmark, families: Sequence[Family], labels: Sequence[str]) -> str:
    return (
        f"Scatter plots: {_label(analysis, benchmark)}, with its standard error over seeds, against "
        f"{'; '.join(labels)}; one panel per family and cost ({', '.join(map(family_label, families))}), one "
        f"colour and marker per variant; the dashed line is the mean of {analysis.baseline}"
    )
