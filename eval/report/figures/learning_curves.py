"""Held-out loss during training: the mean over seeds with its band, and below it the difference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eval.report.analysis import Analysis
from eval.report.figures.style import (
    GREY,
    VariantStyle,
    add_legend,
    filled,
    new_figure,
    variant_styles,
)
from eval.report.learning_curves import Point
from eval.report.names import family_label

COLUMNS = 2
LOSS_IN, DIFFERENCE_IN = 2.3, 1.9
BAND_ALPHA = 0.15
MOST_INK = 0.6  # of all bands where they lie over each other, so that the means of many variants stay visible
START = 0.2  # share of the training whose high losses may leave the axis, so that its end can be read


def draw_learning_curves(analysis: Analysis) -> tuple[Figure, str] | None:
    """Draw two panels a family: loss, and difference to the baseline, each with its band over tokens."""
    points = analysis.curves.points
    families = [name for name in analysis.families if any(x.family == name for x in points)]
    if not families:
        return None
    styles = variant_styles(analysis.variants)
    alpha = min(BAND_ALPHA, MOST_INK / len(styles))
    figure, panels = _panels(len(families))
    for (upper, lower), family in zip(panels, families, strict=True):
        for variant in analysis.variants:
            found = [x for x in points if (x.family, x.variant) == (family, variant)]
            if found:
                _draw_band(upper, found, "loss", styles[variant], alpha)
                compared = [x for x in found if x.difference is not None]
                _draw_band(lower, compared, "difference", styles[variant], alpha)
        _finish(upper, lower, [x for x in points if x.family == family])
        upper.set_title(filled(f"{family_label(family)}: held-out loss", 34))
        lower.set_title(filled(f"{family_label(family)}: difference to {analysis.baseline}", 34))
    figure.supxlabel("tokens (millions)", fontsize=9.5)
    figure.supylabel("nats per token", fontsize=9.5)
    shown = [name for name in analysis.variants if any(x.variant == name for x in points)]
    add_legend(figure, [_handle(str(name), styles[name]) for name in shown])
    return figure, (
        f"Held-out loss against tokens in {', '.join(map(family_label, families))}: above, the mean over "
        f"seeds of each {analysis.noun}, below, its difference to {analysis.baseline}, each with its "
        f"{analysis.confidence:.0%} band; the axes leave out the start"
    )


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


def _draw_band(axes: Axes, points: Sequence[Point], name: str, style: VariantStyle, alpha: float) -> None:
    """Draw a mean, or a difference, in millions of tokens, and its band where it has one."""
    if not points:
        return
    low, high = ("low", "high") if name == "loss" else ("difference_low", "difference_high")
    tokens = [x.tokens / 1e6 for x in points]
    axes.plot(tokens, [getattr(x, name) for x in points], color=style.colour, lw=1.6, ls=style.dashes)
    if getattr(points[0], low) is not None:
        bottom, top = ([getattr(x, end) for x in points] for end in (low, high))
        axes.fill_between(tokens, bottom, top, color=style.colour, alpha=alpha, lw=0)


def _finish(upper: Axes, lower: Axes, points: Sequence[Point]) -> None:
    """Set limits by what comes after the start."""
    later = [x for x in points if x.tokens >= START * max(y.tokens for y in points)]
    _limit(upper, [value for x in later for value in (x.loss, x.low, x.high)])
    _limit(lower, [0.0, *(v for x in later for v in (x.difference, x.difference_low, x.difference_high))])
    lower.axhline(0, color=GREY, lw=0.8, zorder=0)
    for axes in (upper, lower):
        axes.locator_params(axis="x", nbins=5)
        axes.locator_params(axis="y", nbins=5)


def _limit(axes: Axes, values: Sequence[float | None]) -> None:
    known = np.array([value for value in values if value is not None])
    low, high = known.min(), known.max()
    axes.set_ylim(low - 0.06 * (high - low or 1), high + 0.06 * (high - low or 1))


def _handle(name: str, style: VariantStyle) -> Line2D:
    return Line2D([], [], color=style.colour, ls=style.dashes, lw=1.7, label=name)
