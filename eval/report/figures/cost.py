"""Quality against what it costs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.optimize import isotonic_regression

from eval.report.analysis import Analysis
from eval.report.curves.equal_cost import fastest
from eval.report.document.names import family_label, title
from eval.report.figures.crowd import VERDICT_COLOURS, in_words, is_crowd
from eval.report.figures.style import (
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
from eval.report.inputs.run_facts import RunFacts
from eval.report.verdicts.ranking import by_standing
from eval.significance.axes import Benchmark, Family, Level

Cost = tuple[str, float, str]
# Field of RunFacts, divisor, and the axis' label.
COSTS = (
    ("num_parameters", 1e6, "parameters (millions)"),
    ("flops_per_token", 1e6, "forward MFLOP per token"),
    ("train_hours", 1, "training time (hours, at the fastest run's speed)"),
)
TRAIN_FLOPS = "train_flops"
COST_OF = {"num_parameters": "parameters", TRAIN_FLOPS: "training FLOPs", "train_hours": "hours"}
# As ``eval.report.curves.equal_cost`` names them.
MOST_COLUMNS = 4  # of families beside each other
LOG_FROM = 6  # largest over smallest cost
LEAST_SPAN = 0.1  # of an axis, as a share of its middle
PANEL_IN, FRONTIER_IN = 1.55, 2.2
CROWD_IN = 2.7  # with names in the panels
NAME_SHARE = 0.075  # of a crowd's panel: the height of a name
VERDICTS = {
    words: VariantStyle(colour, "o", words == "not told from", "-")
    for words, colour in VERDICT_COLOURS.items()
}
"""How a variant of a crowd looks."""


@dataclass(frozen=True)
class _Point:
    """A variant's mean score, its standard error (nan for one run) and its mean costs by field."""

    variant: Level
    score: float
    error: float
    costs: dict[str, float]


def draw_cost(analysis: Analysis) -> tuple[Figure, str] | None:
    """Mean of the leading outcome against each cost known of two variants: costs down, families across."""
    benchmark = analysis.costs.benchmark or by_standing(analysis)[0]
    points = {family: _points(analysis, benchmark, family) for family in analysis.families}
    families = [family for family, known in points.items() if known]
    costs = [
        cost
        for cost in _costs(analysis)
        if any(sum(cost[0] in p.costs for p in known) > 1 for known in points.values())
    ]
    if not costs:
        return None
    styles = {family: _styles(analysis, benchmark, family) for family in families}
    figure, drawn, columns = _grid(analysis, families, costs)
    for place, (axes, (family, cost)) in enumerate(drawn):
        _panel(axes, points[family], cost, styles[family], analysis.baseline)
        _frontier(axes, analysis, family, cost)
        axes.set_xlabel(filled(cost[2], 50 // columns))
        if family not in [earlier for _, (earlier, _) in drawn[:place]]:
            axes.set_title(filled(family_label(family), 20))
    for axes, (family, cost) in drawn if is_crowd(analysis) else ():  # the panels' limits stand only now
        _name_those_that_differ(axes, points[family], cost, styles[family])
    label = _label(analysis, benchmark)
    is_short = bool(analysis.costs.points) and len(families) == 1
    figure.supylabel(filled(label, 30) if is_short else label, fontsize=9.5)
    handles = _handles(analysis, {point.variant for known in points.values() for point in known})
    add_legend(figure, [*handles, *_frontier_handles(analysis)])
    return figure, _alt(analysis, benchmark, families, [label for _, _, label in costs])


def _styles(analysis: Analysis, benchmark: Benchmark, family: Family) -> dict[Level, VariantStyle]:
    """Look of each variant: its own, or in a crowd that of what is shown against the baseline."""
    if not is_crowd(analysis):
        return variant_styles(analysis.variants)
    words = {c.contrast.plus[0]: in_words(c) for c in analysis.of(benchmark, family)}
    styles = {name: VERDICTS[words.get(name, "not told from")] for name in analysis.variants}
    return {**styles, analysis.baseline: VariantStyle("black", "D", False, "-")}


def _handles(analysis: Analysis, shown: Collection[Level]) -> list[Line2D]:
    if is_crowd(analysis):
        return [_handle(f"{words} {analysis.baseline}", style) for words, style in VERDICTS.items()]
    styles = variant_styles(analysis.variants)
    return [_handle(str(name), styles[name]) for name in analysis.variants if name in shown]


def _name_those_that_differ(
    axes: Axes, points: Sequence[_Point], cost: Cost, styles: dict[Level, VariantStyle]
) -> None:
    field, divisor, _ = cost
    middle, (low, high) = sum(axes.get_xlim()) / 2, axes.get_ylim()
    named = [
        (point.costs[field] / divisor, point.score, point.variant)
        for point in points
        if field in point.costs and styles[point.variant] != VERDICTS["not told from"]
    ]
    for is_left in (True, False):  # of its point, so that a name stays within the panel
        beside = sorted((x for x in named if (x[0] > middle) == is_left), key=lambda x: x[1])
        heights = keep_apart([score for _, score, _ in beside], NAME_SHARE * (high - low))
        for (x, score, variant), y in zip(beside, heights, strict=True):
            colour = styles[variant].colour
            axes.annotate(
                str(variant), (x, score), (-9 if is_left else 9, y), textcoords=("offset points", "data"),
                ha="right" if is_left else "left", va="center", fontsize=SMALL - 1, color=colour,
                arrowprops={"arrowstyle": "-", "lw": 0.5, "color": colour, "shrinkA": 0, "shrinkB": 2},
            )  # fmt: skip


def keep_apart(heights: Sequence[float], gap: float) -> list[float]:
    """Move what stands at rising heights apart, as little as can be (least squares).

    With gaps taken off, heights must not fall: ``[0, 0, 5]`` with a gap of 2 is ``[0, -2, 1]``, of which
    isotonic regression makes ``[-1, -1, 1]``, and with the gaps put back ``[-1, 1, 5]``.
    """
    gaps = gap * np.arange(len(heights))
    return list(isotonic_regression(heights - gaps).x + gaps) if len(heights) else []


def _costs(analysis: Analysis) -> Sequence[Cost]:
    """What a training costs, where that is asked; else what a token does."""
    spent = [x.value for x in analysis.costs.points if x.cost == COST_OF[TRAIN_FLOPS]]
    if not analysis.costs.points:
        return COSTS
    thousands = int(np.log10(max(spent, default=1.0)) // 3) * 3
    of_training = (TRAIN_FLOPS, 10.0**thousands, f"training FLOPs (1e{thousands})")
    return (COSTS[0], of_training, ("train_hours", 1, "training time (hours)"))


def _grid(
    analysis: Analysis, families: Sequence[Family], costs: Sequence[Cost]
) -> tuple[Figure, list[tuple[Axes, tuple[Family, Cost]]], int]:
    """Costs down and families across; the other way round for frontiers, and for many families."""
    if analysis.costs.points or len(families) > MOST_COLUMNS:
        pairs = [(family, cost) for family in families for cost in costs]
        height, columns, shared = FRONTIER_IN, len(costs), "row"
    else:
        pairs = [(family, cost) for cost in costs for family in families]
        height = CROWD_IN if is_crowd(analysis) else PANEL_IN
        columns, shared = len(families) if len(families) > 1 else 2, "col"
    figure, drawn = panels(len(pairs), height, columns=columns, sharey=shared)
    return figure, list(zip(drawn, pairs, strict=True)), columns


def _frontier(axes: Axes, analysis: Analysis, family: Family, cost: Cost) -> None:
    """Join the levels on the frontier by steps, and ring those that are not told from it."""
    name = COST_OF.get(cost[0])
    points = [x for x in analysis.costs.points if (x.family, x.cost) == (family, name)]
    on_it = sorted((x.value / cost[1], x.score) for x in points if x.standing == "on the frontier")
    if on_it:
        right = axes.get_xlim()[1]
        x, y = [[*values, values[-1]] for values in zip(*on_it, strict=True)]
        x[-1] = right
        axes.step(x, y, where="post", color=GREY, lw=1.1, zorder=1)
        axes.set_xlim(right=right)
    for point in points:
        if point.standing == "not told from it":
            axes.plot(point.value / cost[1], point.score, "o", mfc="none", mec=GREY, ms=11, mew=0.9, zorder=2)


def _frontier_handles(analysis: Analysis) -> list[Line2D]:
    if not analysis.costs.points:
        return []
    ring = Line2D([], [], color=GREY, marker="o", mfc="none", ms=9, mew=0.9, lw=0, label="not told from it")
    return [Line2D([], [], color=GREY, lw=1.1, label="frontier"), ring]


def cost_panel(analysis: Analysis, benchmark: Benchmark, family: Family, cost: str) -> Panel | None:
    """Return an outcome against one cost in one family; nothing where the cost of no two variants is known.

    Args:
        analysis: What was computed.
        benchmark: The outcome.
        family: The family.
        cost: ``num_parameters``, ``flops_per_token`` or ``train_hours``.
    """
    points, styles = _points(analysis, benchmark, family), variant_styles(analysis.variants)
    known = [point for point in points if cost in point.costs]
    if len(known) < 2:
        return None

    def draw(axes: Axes) -> None:
        chosen = next(found for found in (*_costs(analysis), *COSTS) if found[0] == cost)
        _panel(axes, known, chosen, styles, analysis.baseline)
        axes.set_xlabel(chosen[2])
        axes.set_ylabel(filled(_label(analysis, benchmark), 36))
        axes.set_title(filled(family_label(family), 40))

    return Panel(draw, [_handle(str(x.variant), styles[x.variant]) for x in known], 2 * PANEL_IN)


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
        for field in (*(cost[0] for cost in COSTS), TRAIN_FLOPS):
            known = [value for x in runs.run_id if (value := getattr(facts.get(x), field, None)) is not None]
            if known:
                costs[field] = float(np.mean(known))
        if "train_hours" in costs and not analysis.costs.points:
            costs["train_hours"] *= _slowness(analysis, [facts[x] for x in runs.run_id if x in facts])
        if costs:
            points.append(_Point(variant, float(runs.score.mean()), _standard_error(runs.score), costs))
    return points


def _slowness(analysis: Analysis, runs: Sequence[RunFacts]) -> float:
    """Speed of the arm's runs over that of its fastest, which had the machine to itself: at most 1."""
    speeds = [x.tokens_per_s for x in runs if x.train_hours is not None and x.tokens_per_s]
    best = fastest(analysis.source, runs)
    return float(1 / np.mean([best / speed for speed in speeds])) if speeds and best else 1.0


def _standard_error(scores: pd.Series) -> float:
    return float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else float("nan")


def _panel(
    axes: Axes,
    points: Sequence[_Point],
    cost: Cost,
    styles: dict[Level, VariantStyle],
    baseline: Level,
) -> None:
    field, divisor, _ = cost
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
        + ("; the solid one the frontier" if analysis.costs.points else "")
    )
