"""Loss against what was tuned: a small panel for each variant, with its optimum."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from base.printing import first_few
from report.analysis import Analysis
from report.document.names import file_name
from report.figures.crowd import BEHIND, in_drawn_order, small_panels
from report.figures.style import BLUE, GREY, VERMILION, add_legend
from report.part import Draw
from report.significance.axes import Family
from report.tuning.choices import Line, Tuned

BAND_ALPHA = 0.15
NAMED = 8
ABOVE = 4.0
"""Height of a panel, in median heights of the losses beside the chosen values."""


def tuning_figures(analysis: Analysis, tuned: Tuned) -> Mapping[str, Draw]:
    """Draw a figure for each field with positive numbers; the first is called ``tuning``."""
    fields = dict.fromkeys(line.field for line in tuned.lines if line.rates is not None)
    return {
        file_name("tuning", field) if place else "tuning": partial(draw_tuning, analysis, tuned, field)
        for place, field in enumerate(fields)
    }


def draw_tuning(analysis: Analysis, tuned: Tuned, field: str) -> tuple[Figure, str]:
    """Draw one field, each variant above its own lowest mean, those of a family on one scale."""
    lines = {(x.family, x.variant): x for x in tuned.lines if x.field == field and x.rates is not None}
    shown = {
        family: [name for name in in_drawn_order(analysis) if (family, name) in lines]
        for family in dict.fromkeys(family for family, _ in lines)
    }
    figure, panels = small_panels(shown, field, "held-out loss above the variant's lowest (nats)")
    for family in shown:
        of_family = [line for line in lines.values() if line.family == family]
        heights = [float(np.ptp(line.means[_neighbours(line)])) for line in of_family]
        reach = ABOVE * float(np.median(heights)) or 1.0
        for line in of_family:
            axes = panels[family, line.variant]
            _panel(axes, line, lines.get((family, analysis.baseline)))
            _shared(axes, tuned, family, field)
            axes.set_ylim(-0.2 * reach, reach)
    add_legend(figure, _handles(analysis, tuned))
    optima = [f"{x.variant} {x.curve.optimum:.2g}" for x in lines.values() if x.curve]
    return figure, (
        f"Held-out loss against {field}, a panel for each {analysis.noun}, above its lowest mean, with the "
        "range over tuning seeds and a star at the optimum; "
        f"{first_few(optima, NAMED)}"
    )


def _neighbours(line: Line) -> slice:
    """Return the chosen value and those beside it."""
    return slice(max(0, line.chosen - 1), line.chosen + 2)


def _panel(axes: Axes, line: Line, baseline: Line | None) -> None:
    lowest, rates = float(line.means.min()), [float(value) for value in line.values]
    if baseline is not None and baseline is not line:
        axes.plot([float(x) for x in baseline.values], baseline.means - baseline.means.min(), **BEHIND)
    bottom, top = np.nanmin(line.losses, axis=-1) - lowest, np.nanmax(line.losses, axis=-1) - lowest
    axes.fill_between(rates, bottom, top, color=BLUE, alpha=BAND_ALPHA, lw=0)
    axes.plot(rates, line.means - lowest, color=BLUE, lw=1.2, marker="o", ms=2.5)
    axes.plot(rates[line.chosen], line.means[line.chosen] - lowest, "o", color=BLUE, ms=5, mfc="white")
    if line.curve is not None:
        optimum, loss = line.curve.optimum, line.curve.loss - lowest
        axes.plot(optimum, loss, "*", color=VERMILION, ms=7, mec="white", mew=0.5, zorder=4)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([rates[0], rates[-1]], [f"{rates[0]:g}", f"{rates[-1]:g}"])
    axes.locator_params(axis="y", nbins=3)


def _shared(axes: Axes, tuned: Tuned, family: Family, field: str) -> None:
    point = tuned.shared_points.get(family)
    if point is not None:
        axes.axvline(float(point[field]), color=GREY, lw=0.8, ls=":", zorder=0)


def _handles(analysis: Analysis, tuned: Tuned) -> list[Line2D]:
    shared = Line2D([], [], color=GREY, lw=0.8, ls=":", label="shared value")
    return [
        Line2D([], [], color=BLUE, lw=1.2, marker="o", ms=2.5, label="mean and range over seeds"),
        Line2D([], [], color=BLUE, lw=0, marker="o", ms=5, mfc="white", label="chosen"),
        Line2D([], [], color=VERMILION, lw=0, marker="*", ms=7, label="optimum"),
        Line2D([], [], color=GREY, lw=0.8, label=str(analysis.baseline)),
        *[shared] * bool(tuned.shared_points),
    ]
