"""Every seed's score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from report.analysis import Analysis
from report.document.markdown import arrow
from report.document.names import family_label, title
from report.figures.crowd import in_drawn_order
from report.figures.style import (
    AVERAGE_COLOUR,
    GREY,
    SMALL,
    Panel,
    add_legend,
    family_styles,
    filled,
    in_two_lines,
    panels,
    text_width,
)
from report.significance.axes import Benchmark, Family
from report.verdicts.ranking import by_standing

MAX_COLUMNS = 4
TITLE = 9.0  # points
TITLE_WIDTH = 16  # letters
PANELS_IN, BESIDE_IN = 5.3, 0.1


def draw_seeds(analysis: Analysis) -> tuple[Figure, str]:
    """Every seed as a dot, one panel for each outcome and family, those of one outcome on one scale."""
    places = [
        (benchmark, family)
        for benchmark in by_standing(analysis)
        for family in analysis.families
        if family in analysis.scopes(benchmark)
    ]
    titles = [_title(analysis, *found) for found in places]
    columns = _columns(titles, len(analysis.families))
    lines = max(text.count("\n") for text in titles) + 1
    figure, drawn = panels(len(places), _height(analysis, lines), columns=columns, sharey=True)
    for axes, found, said in zip(drawn, places, titles, strict=True):
        _panel(axes, analysis, *found)
        axes.set_title(said, fontsize=TITLE)
    _label_variants(drawn[0], analysis)
    add_legend(figure, _handles(analysis))
    return figure, (
        f"Dot plots: every seed's score, one row per {analysis.noun}, one panel for each outcome and family: "
        f"{', '.join(map(title, by_standing(analysis)))}; bars are means, the dashed line is the mean of "
        f"{analysis.baseline}, the dotted one chance"
    )


def seeds_panel(analysis: Analysis, benchmark: Benchmark, family: Family) -> Panel:
    """Return the seeds of one outcome in one family."""
    said = _title(analysis, benchmark, family)

    def draw(axes: Axes) -> None:
        _panel(axes, analysis, benchmark, family)
        axes.set_title(said, fontsize=TITLE)
        _label_variants(axes, analysis)

    return Panel(draw, _handles(analysis), _height(analysis, said.count("\n") + 1))


def _height(analysis: Analysis, lines: int) -> float:
    """Inches, with so many lines in a title."""
    row = 0.33 if any("\n" in in_two_lines(str(name)) for name in analysis.variants) else 0.2
    return 0.75 + 0.15 * lines + row * len(analysis.variants)


def _label_variants(axes: Axes, analysis: Analysis) -> None:
    names = [in_two_lines(str(name)) for name in in_drawn_order(analysis)]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)


def _title(analysis: Analysis, benchmark: Benchmark, family: Family) -> str:
    """Name a panel: outcome, direction, family and unit."""
    metric = analysis.metric(benchmark)
    unit = {"percent": " (%)", "correlation": " (x 100)", None: ""}.get(metric.unit, f" ({metric.unit})")
    return (
        f"{filled(title(benchmark), TITLE_WIDTH)} {arrow(metric)}\n{filled(family_label(family) + unit, 20)}"
    )


def _columns(titles: Sequence[str], families: int) -> int:
    """As many panels in a line as there is room for their titles, the families of an outcome together."""
    widest = max(text_width(text, TITLE) for text in titles) + BESIDE_IN
    most = max(1, min(len(titles), MAX_COLUMNS, int(PANELS_IN / widest)))
    return most - most % families if most > families else most


def _panel(axes: Axes, analysis: Analysis, benchmark: Benchmark, family: Family) -> None:
    limits = _limits(analysis, benchmark)[family]
    scores = analysis.runs[(analysis.runs.benchmark == benchmark) & (analysis.runs.family == family)]
    colour = family_styles(analysis.families)[family][0]
    for place, variant in enumerate(in_drawn_order(analysis)):
        chosen = scores[scores.variant == variant].sort_values("seed")
        _dots(axes, np.asarray(chosen.score), place, colour, variant == analysis.baseline)
    chance = analysis.metric(benchmark).chance
    if chance is not None and limits[0] <= chance <= limits[1]:
        axes.axvline(chance, color=GREY, lw=1.1, ls=":", zorder=1)
    axes.set_xlim(*limits)
    axes.locator_params(axis="x", nbins=3)
    axes.grid(axis="y", color="#e6e6e6", lw=0.6)
    axes.set_axisbelow(True)


def _handles(analysis: Analysis) -> list[Any]:
    return [
        Line2D([], [], color=GREY, marker="o", lw=0, ms=4.5, label="a seed"),
        Line2D([], [], color=AVERAGE_COLOUR, lw=1.8, label="mean"),
        Line2D([], [], color=GREY, lw=0.9, ls="--", label=f"mean of {analysis.baseline}"),
        Line2D([], [], color=GREY, lw=1.1, ls=":", label="chance"),
    ]


def _limits(analysis: Analysis, benchmark: Benchmark) -> dict[Family, tuple[float, float]]:
    """Ends of each panel's axis: of one span, so that spreads compare, around each family's own scores."""
    runs = analysis.runs[analysis.runs.benchmark == benchmark]
    scores = {
        name: runs.score[runs.family == name] for name in analysis.scopes(benchmark) if name is not None
    }
    reach = 0.6 * (max(float(np.ptp(found)) for found in scores.values()) or 1.0)
    middles = {name: float(found.min() + found.max()) / 2 for name, found in scores.items()}
    return {name: (middle - reach, middle + reach) for name, middle in middles.items()}


def _dots(axes: Axes, values: np.ndarray, place: int, colour: str, is_baseline: bool) -> None:
    if not len(values):
        axes.text(0.02, place, "no run", transform=axes.get_yaxis_transform(), fontsize=SMALL,
                  color=GREY, ha="left", va="center")  # fmt: skip
        return
    # Spread by seed order, so that equal scores stay visible; never at random, so that files repeat.
    spread = np.linspace(-0.2, 0.2, len(values)) if len(values) > 1 else np.zeros(1)
    axes.plot(values, place + spread, "o", color=colour, ms=4.5, alpha=0.75, mew=0, zorder=3)
    axes.plot([values.mean()] * 2, [place - 0.34, place + 0.34], color=AVERAGE_COLOUR, lw=1.8, zorder=4)
    if is_baseline:
        axes.axvline(values.mean(), color=GREY, lw=0.9, ls="--", zorder=1)
