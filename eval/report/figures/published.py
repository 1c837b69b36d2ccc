"""Own effects beside published ones."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eval.report.analysis import Analysis
from eval.report.document.markdown import signed
from eval.report.document.names import family_label
from eval.report.figures.style import BLUE, GREY, SMALL, VERMILION, add_legend, new_figure
from eval.report.scores.published import BesidePublished, Interval

ROW_IN = 0.3
MOST_ROWS = 48
"""Of more a figure would be taller than a page; the table has them all."""


def draw_published(analysis: Analysis) -> tuple[Figure, str] | None:
    """Every effect with its interval, own above published; None where there is none, or too many to see."""
    if analysis.published is None or not 0 < len(analysis.published.effects) <= MOST_ROWS:
        return None
    effects = analysis.published.effects
    figure = new_figure(0.9 + ROW_IN * len(effects))
    axes = figure.subplots()
    for place, effect in enumerate(effects):
        _draw(axes, place - 0.14, effect.own, BLUE, "o", BLUE)
        _draw(axes, place + 0.14, effect.published, VERMILION, "s", "white")
    axes.axvline(0, color=GREY, lw=1, zorder=0)
    axes.set_yticks(range(len(effects)), [_label(x) for x in effects], fontsize=SMALL)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(effects) - 0.5, -0.5)
    axes.set_xlabel(f"points, minus {analysis.published.baseline}")
    add_legend(figure, _handles())
    return figure, _alt(effects, analysis.published.baseline)


def _draw(axes: Axes, y: float, found: Interval, colour: str, marker: str, fill: str) -> None:
    if found.low is not None and found.high is not None:
        axes.plot([found.low, found.high], [y, y], color=colour, lw=1.6, zorder=2)
    axes.plot(found.estimate, y, marker, color=colour, mfc=fill, ms=4.5, zorder=3)


def _label(effect: BesidePublished) -> str:
    model = effect.model
    name = " ".join(part for part in (model.variant, model.head) if part)
    return f"{effect.outcome}, {family_label(model.family)}: {name}"


def _handles() -> list[Line2D]:
    return [
        Line2D([], [], color=BLUE, marker="o", ms=4.5, lw=1.6, label="own"),
        Line2D([], [], color=VERMILION, marker="s", mfc="white", ms=4.5, lw=1.6, label="published"),
    ]


def _alt(effects: Sequence[BesidePublished], baseline: str) -> str:
    said = [
        f"{_label(x)} {signed(x.own.estimate)} (published {signed(x.published.estimate)})" for x in effects
    ]
    return f"Own and published differences to {baseline} with 95% intervals: {'; '.join(said)}"
