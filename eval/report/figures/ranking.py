"""Variants in the order of their scores, with what separates each from the baseline."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eval.report.analysis import Analysis
from eval.report.document.names import family_label, title
from eval.report.figures.crowd import VERDICT_COLOURS, in_words
from eval.report.figures.style import GREY, SMALL, add_legend, filled, panels
from eval.report.verdicts.ranking import EDGE, Place, Ranking

ROW_IN = 0.17
BELOW_IN = 0.75
MOST_PANELS = 2
"""Families beside each other."""


def draw_ranking(analysis: Analysis) -> tuple[Figure, str] | None:
    """Draw the order on the leading outcome, a panel a family, the best on top."""
    chosen = analysis.rankings
    if not chosen:
        return None
    benchmark = chosen[0].benchmark
    rows = max(len(x.places) for x in chosen)
    columns = min(MOST_PANELS, len(chosen))
    figure, drawn = panels(len(chosen), BELOW_IN + ROW_IN * rows, columns=columns)
    for axes, ranking in zip(drawn, chosen, strict=True):
        _panel(axes, analysis, ranking)
    unit = analysis.outcome(benchmark).unit
    figure.supxlabel(
        f"{title(benchmark)}, difference to {analysis.baseline}{f' ({unit})' if unit else ''}", fontsize=9.5
    )
    handles = [
        Line2D([], [], color=colour, marker="o", ms=4.5, lw=1.2, label=f"{words} {analysis.baseline}")
        for words, colour in VERDICT_COLOURS.items()
    ]
    add_legend(figure, handles)
    return figure, "; ".join(_alt(analysis, ranking) for ranking in chosen)


def _panel(axes: Axes, analysis: Analysis, ranking: Ranking) -> None:
    reach = _reach(ranking)
    for row, place in enumerate(ranking.places):
        if row % 2:
            axes.axhspan(row - 0.5, row + 0.5, color="#f3f3f3", lw=0, zorder=0)
        _row(axes, row, place, ranking.has_letters)
    axes.axvline(0, color="black", lw=0.8, zorder=1)
    axes.set_yticks(range(len(ranking.places)), [_name(x) for x in ranking.places])
    for label, place in zip(axes.get_yticklabels(), ranking.places, strict=True):
        label.set_fontweight("bold" if place.comparison is None else "normal")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(ranking.places) - 0.5, -0.5)
    axes.set_xlim(*reach)
    axes.locator_params(axis="x", nbins=5)
    axes.set_title(filled(family_label(ranking.family), 40))


def _reach(ranking: Ranking) -> tuple[float, float]:
    """Ends of the axis: all estimates, and intervals as far again, so that a wide one hides no other."""
    found = [x.comparison for x in ranking.places if x.comparison is not None]
    values = [0.0, *(c.estimate for c in found if c.estimate is not None)]
    low, high = min(values), max(values)
    span = high - low or 1.0
    ends = [end for c in found if c.interval for end in c.interval]
    return max(min([low, *ends]), low - span) - 0.03 * span, min(
        max([high, *ends]), high + span
    ) + 0.03 * span


def _name(place: Place) -> str:
    return f"{place.variant} {EDGE}" if place.is_at_edge else str(place.variant)


def _row(axes: Axes, row: int, place: Place, has_letters: bool) -> None:
    found = place.comparison
    if found is None:
        axes.plot(0, row, "D", color="black", ms=4.5, zorder=3)
    else:
        colour = VERDICT_COLOURS[in_words(found)]
        if found.interval is not None:
            axes.plot(found.interval, (row, row), color=colour, lw=1.2, zorder=2)
        if found.estimate is not None:
            axes.plot(found.estimate, row, "o", color=colour, ms=4.5, zorder=3)
    if has_letters:
        axes.text(
            1.01, row, place.letters, transform=axes.get_yaxis_transform(), va="center",
            fontsize=SMALL - 1.5, color=GREY,
        )  # fmt: skip


def _alt(analysis: Analysis, ranking: Ranking) -> str:
    order = ", ".join(_name(x) for x in ranking.places)
    letters = ", and the letters of its groups" if ranking.has_letters else ""
    return (
        f"{family_label(ranking.family)}: {analysis.noun}s from the best to the worst mean "
        f"{title(ranking.benchmark)}, each as its difference to {analysis.baseline} with the interval that "
        f"holds together with the others{letters}: {order}"
    )
