"""Held-out loss during training: the mean over seeds with its band, and below it the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eval.report.analysis import Analysis
from eval.report.curves.learning_curves import Point
from eval.report.document.names import family_label
from eval.report.figures.crowd import ALONE, is_crowd, others_in_drawn_order, small_panels
from eval.report.figures.style import (
    GREY,
    Panel,
    VariantStyle,
    add_legend,
    filled,
    new_figure,
    variant_styles,
)
from eval.significance.axes import Family, Level

COLUMNS = 2
LOSS_IN, DIFFERENCE_IN = 2.3, 1.9
BAND_ALPHA = 0.15
MOST_INK = 0.6  # of all bands where they lie over each other, so that the means of many variants stay visible
TOKENS, NATS = "tokens (millions)", "nats per token"
Shown = Literal["loss", "difference"]
ENDS: Mapping[Shown, tuple[str, str]] = {
    "loss": ("low", "high"),
    "difference": ("difference_low", "difference_high"),
}
"""Of the band of each."""
START = 0.2  # share of the training whose high losses may leave the axis, so that its end can be read


def draw_learning_curves(analysis: Analysis) -> tuple[Figure, str] | None:
    """Draw two panels a family: loss, and difference to the baseline, each with its band over tokens."""
    points = analysis.curves.points
    families = [name for name in analysis.families if any(x.family == name for x in points)]
    if not families:
        return None
    if is_crowd(analysis):
        return _draw_crowd(analysis, families)
    figure, panels = _panels(len(families))
    for (upper, lower), family in zip(panels, families, strict=True):
        _draw(upper, analysis, family, "loss")
        _draw(lower, analysis, family, "difference")
    figure.supxlabel(TOKENS, fontsize=9.5)
    figure.supylabel(NATS, fontsize=9.5)
    add_legend(figure, _handles(analysis, points))
    return figure, (
        f"Held-out loss against tokens in {', '.join(map(family_label, families))}: above, the mean over "
        f"seeds of each {analysis.noun}, below, its difference to {analysis.baseline}, each with its "
        f"{analysis.confidence:.0%} band; the axes leave out the start"
    )


def _draw_crowd(analysis: Analysis, families: Sequence[Family]) -> tuple[Figure, str]:
    """Draw the differences of many variants, a small panel for each."""
    found = {
        family: {
            name: _points_of(analysis, family, name, "difference") for name in others_in_drawn_order(analysis)
        }
        for family in families
    }
    shown = {family: [name for name, points in of.items() if points] for family, of in found.items()}
    said = f"difference to {analysis.baseline} ({NATS})"
    figure, panels = small_panels(shown, TOKENS, said)
    for family, variants in shown.items():
        for name in variants:
            _draw_band(panels[family, name], found[family][name], "difference", ALONE, 2 * BAND_ALPHA)
            panels[family, name].axhline(0, color=GREY, lw=0.8, zorder=0)
        later = [x for name in variants for x in _later(found[family][name])]
        _limit(
            panels[family, variants[0]],
            [0.0, *(getattr(x, end) for x in later for end in _values("difference"))],
        )
    return figure, (
        f"Held-out loss against tokens in {', '.join(map(family_label, families))}: a small panel for each "
        f"{analysis.noun}, from the best to the worst, with its difference to {analysis.baseline} and the "
        f"{analysis.confidence:.0%} band of that; the axes leave out the start"
    )


def _points_of(analysis: Analysis, family: Family, variant: Level, name: Shown) -> list[Point]:
    of = [x for x in analysis.curves.points if (x.family, x.variant) == (family, variant)]
    return [x for x in of if getattr(x, name) is not None]


def _later(points: Sequence[Point]) -> list[Point]:
    """Leave out the start, whose losses may leave the axis."""
    end = max((x.tokens for x in points), default=0.0)
    return [x for x in points if x.tokens >= START * end]


def _values(name: Shown) -> tuple[str, ...]:
    return (name, *ENDS[name])


def learning_curves_panel(analysis: Analysis, family: Family, name: Shown = "loss") -> Panel | None:
    """Return the held-out loss of one family, or its difference to the baseline; nothing without curves."""
    points = [x for x in analysis.curves.points if x.family == family]
    if not points:
        return None

    def draw(axes: Axes) -> None:
        _draw(axes, analysis, family, name)
        axes.set_xlabel(TOKENS)
        axes.set_ylabel(NATS)

    return Panel(draw, _handles(analysis, points), LOSS_IN + DIFFERENCE_IN - 1)


def _draw(axes: Axes, analysis: Analysis, family: Family, name: Shown) -> None:
    """Draw every variant of a family with its band, within limits by what comes after the start."""
    points = [x for x in analysis.curves.points if x.family == family]
    styles = variant_styles(analysis.variants)
    alpha = min(BAND_ALPHA, MOST_INK / len(styles))
    for variant in analysis.variants:
        _draw_band(axes, _points_of(analysis, family, variant, name), name, styles[variant], alpha)
    if name == "difference":
        axes.axhline(0, color=GREY, lw=0.8, zorder=0)
    _limit(
        axes,
        [0.0] * (name == "difference") + [getattr(x, end) for x in _later(points) for end in _values(name)],
    )
    axes.locator_params(axis="x", nbins=5)
    axes.locator_params(axis="y", nbins=5)
    said = "held-out loss" if name == "loss" else f"difference to {analysis.baseline}"
    axes.set_title(filled(f"{family_label(family)}: {said}", 34))


def _panels(count: int) -> tuple[Figure, list[tuple[Axes, Axes]]]:
    """Make a figure of ``count`` pairs of panels, one above the other; spare places stay empty."""
    columns = min(COLUMNS, count)
    lines = -(-count // columns)
    figure = new_figure((LOSS_IN + DIFFERENCE_IN) * lines)
    ratios = [LOSS_IN, DIFFERENCE_IN] * lines
    grid = figure.subplots(2 * lines, columns, squeeze=False, height_ratios=ratios)
    pairs = [(grid[2 * i][j], grid[2 * i + 1][j]) for i in range(lines) for j in range(columns)]
    for pair in pairs[count:]:
        for axes in pair:
            axes.remove()
    return figure, pairs[:count]


def _draw_band(axes: Axes, points: Sequence[Point], name: Shown, style: VariantStyle, alpha: float) -> None:
    """Draw a mean, or a difference, in millions of tokens, and its band where it has one."""
    if not points:
        return
    low, high = ENDS[name]
    tokens = [x.tokens / 1e6 for x in points]
    axes.plot(tokens, [getattr(x, name) for x in points], color=style.colour, lw=1.6, ls=style.dashes)
    if getattr(points[0], low) is not None:
        bottom, top = ([getattr(x, end) for x in points] for end in (low, high))
        axes.fill_between(tokens, bottom, top, color=style.colour, alpha=alpha, lw=0)


def _limit(axes: Axes, values: Sequence[float | None]) -> None:
    known = np.array([value for value in values if value is not None])
    low, high = known.min(), known.max()
    axes.set_ylim(low - 0.06 * (high - low or 1), high + 0.06 * (high - low or 1))


def _handles(analysis: Analysis, points: Sequence[Point]) -> list[Line2D]:
    styles = variant_styles(analysis.variants)
    shown = [name for name in analysis.variants if any(x.variant == name for x in points)]
    return [styles[name].line(str(name)) for name in shown]
