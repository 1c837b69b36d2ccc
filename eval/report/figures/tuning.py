"""Loss against what was tuned, one panel for each setting, with every variant's optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from eval.report.analysis import Analysis
from eval.report.document.names import family_label
from eval.report.figures.crowd import BEHIND, in_drawn_order, is_crowd, small_panels
from eval.report.figures.style import (
    BLUE,
    GREY,
    VERMILION,
    VariantStyle,
    add_legend,
    filled,
    label_log_axis,
    panels,
    variant_styles,
)
from eval.report.tuning.choices import Line, Tuned
from eval.results.tuning_rules import is_number
from eval.significance.axes import Family, Level

PANEL_IN = 3.1
BAND_ALPHA, MOST_INK = 0.15, 0.6
STAR = 11
SMOOTH = 40
MOST_TICKS = 7
ABOVE = 4.0
"""Times the cost of the neighbours of the choices, above which losses leave the axis."""


def draw_tuning(analysis: Analysis) -> tuple[Figure, str] | None:
    """Draw loss against rate; None where nothing was tuned that has logarithms."""
    tuned = analysis.tuned
    drawn = [line for line in tuned.lines if line.rates is not None] if tuned else []
    if tuned is None or not drawn:
        return None
    places = list(dict.fromkeys((line.family, line.field) for line in drawn))
    if is_crowd(analysis) and len({name for _, name in places}) == 1:
        return _draw_crowd(analysis, drawn)
    figure, grid = panels(len(places), PANEL_IN, columns=2)
    styles = variant_styles(analysis.variants)
    for axes, (family, name) in zip(grid, places, strict=True):
        own = [line for line in drawn if (line.family, line.field) == (family, name)]
        _draw(axes, own, {line: styles[line.variant] for line in own}, tuned)
        _title(axes, analysis, family, name)
    add_legend(figure, _handles(analysis, styles))
    said = listed_optima(drawn) if len(places) == 1 else f"{len(places)} panels"
    return figure, (
        "Held-out loss against what was tuned, each variant with its band over tuning seeds, a star at its "
        f"optimum with the interval of it, and the shared value as a dotted line; {said}"
    )


def _draw_crowd(analysis: Analysis, drawn: Sequence[Line]) -> tuple[Figure, str]:
    """Draw one field of many variants, each from its own lowest: losses stand in the table of the order."""
    order = in_drawn_order(analysis)
    lines = {(line.family, line.variant): line for line in drawn}
    families = dict.fromkeys(line.family for line in drawn)
    shown = {family: [name for name in order if (family, name) in lines] for family in families}
    figure, panels_of = small_panels(shown, drawn[0].field, "held-out loss above the variant's lowest (nats)")
    for family in families:
        own = [line for line in drawn if line.family == family]
        reach = max(line.means[_neighbours(line)].max() - line.means.min() for line in own)
        for line in own:
            _small_panel(panels_of[family, line.variant], line, lines.get((family, analysis.baseline)))
            panels_of[family, line.variant].set_ylim(-0.15 * reach, 1.15 * reach)
    band = "the range over tuning seeds" if drawn[0].losses.shape[1] > 1 else "single runs"
    return figure, (
        f"Held-out loss against {drawn[0].field}, a small panel for each of {len(order)} {analysis.noun}s, "
        f"from the best to the worst, above its lowest mean; the band is {band}, the star the optimum with "
        f"its interval, the grey line {analysis.baseline}; {listed_optima(drawn)}"
    )


def _small_panel(axes: Axes, line: Line, baseline: Line | None) -> None:
    lowest = float(line.means.min())
    rates = [float(value) for value in line.values]
    if baseline is not None and baseline is not line:
        axes.plot([float(x) for x in baseline.values], baseline.means - baseline.means.min(), **BEHIND)
    bottom, top = _band(line)
    axes.fill_between(rates, bottom - lowest, top - lowest, color=BLUE, alpha=BAND_ALPHA, lw=0)
    axes.plot(rates, line.means - lowest, color=BLUE, lw=1.2, marker="o", ms=2.5)
    if line.curve is not None:
        optimum, loss = line.curve.optimum.exp, line.curve.loss.value - lowest
        ends = optimum.interval or (optimum.value, optimum.value)
        axes.plot(ends, [loss, loss], color=VERMILION, lw=2, alpha=0.6)
        axes.plot([optimum.value], [loss], "*", color=VERMILION, ms=7, mec="white", mew=0.5, zorder=4)
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([rates[0], rates[-1]], [f"{rates[0]:g}", f"{rates[-1]:g}"])
    axes.locator_params(axis="y", nbins=3)


def _band(line: Line) -> tuple[np.ndarray, np.ndarray]:
    """(R,) lowest and highest loss over tuning seeds."""
    return np.nanmin(line.losses, axis=-1), np.nanmax(line.losses, axis=-1)


def _neighbours(line: Line) -> slice:
    """Return the chosen value and those beside it."""
    return slice(max(0, line.chosen - 1), line.chosen + 2)


def listed_optima(lines: Sequence[Line]) -> str:
    """Say optima in words, for who does not see them."""
    found = [(line.variant, line.curve) for line in lines]
    return ", ".join(f"{name} {curve.optimum.exp.value:.2g}" for name, curve in found if curve)


def _draw(axes: Axes, lines: Sequence[Line], styles: dict[Line, VariantStyle], tuned: Tuned) -> None:
    alpha = min(BAND_ALPHA, MOST_INK / len(lines))
    for line in lines:
        look = styles[line]
        rates = [float(value) for value in line.values]
        bottom, top = _band(line)
        axes.fill_between(rates, bottom, top, color=look.colour, alpha=alpha, lw=0)
        axes.plot(rates, line.means, color=look.colour, ls=look.dashes, lw=1.3, marker=look.marker, ms=4.5,
                  fillstyle="none" if look.hollow else "full")  # fmt: skip
        _mark_optimum(axes, line, look)
    shared = tuned.shared_points.get(lines[0].family, {}).get(lines[0].field)
    if shared is not None and is_number(shared):
        axes.axvline(float(shared), color=GREY, lw=1.0, ls=":", zorder=0)
    axes.set_xscale("log")
    axes.set_ylim(*_limits(lines))
    label_log_axis(axes.xaxis)
    tried = sorted({float(value) for line in lines for value in line.values})
    if len(tried) <= MOST_TICKS:
        axes.set_xticks(tried, [f"{value:g}" for value in tried])
    axes.locator_params(axis="y", nbins=6)


def _mark_optimum(axes: Axes, line: Line, look: VariantStyle) -> None:
    """Draw the curve, and a star at its lowest with the interval of its place."""
    if line.curve is None or line.fitted is None:
        return
    assert line.rates is not None
    near = np.linspace(line.fitted.low, line.fitted.high, SMOOTH)
    losses = np.polyval(line.fitted.coefficients, near)
    axes.plot(np.exp(near + line.rates[line.chosen]), losses, color=look.colour, lw=0.8, ls="--")
    optimum, loss = line.curve.optimum.exp, line.curve.loss.value
    axes.plot(
        optimum.interval or (optimum.value, optimum.value),
        [loss, loss],
        color=look.colour,
        lw=2.4,
        alpha=0.55,
        solid_capstyle="butt",
    )
    axes.plot([optimum.value], [loss], "*", color=look.colour, ms=STAR, mec="white", mew=0.7, zorder=4)


def _limits(lines: Sequence[Line]) -> tuple[float, float]:
    """Leave out losses so high that optima could not be told apart beside them."""
    low = min(float(_band(line)[0].min()) for line in lines)
    near = [float(line.means[_neighbours(line)].max()) for line in lines]
    best = [float(line.means[line.chosen]) for line in lines]
    reach = ABOVE * float(np.median(np.subtract(near, best)))
    high = min(
        max(float(_band(line)[1].max()) for line in lines), max(best) + max(reach, max(near) - max(best))
    )
    space = 0.05 * (high - low or 1.0)
    return low - space, high + space


def _title(axes: Axes, analysis: Analysis, family: Family, name: str) -> None:
    axes.set_xlabel(name)
    axes.set_ylabel("held-out loss (nats)")
    if len(analysis.families) > 1:
        axes.set_title(filled(family_label(family), 34))


def _handles(analysis: Analysis, styles: Mapping[Level, VariantStyle]) -> list[Line2D]:
    looks = [
        Line2D(
            [],
            [],
            color=look.colour,
            ls=look.dashes,
            marker=look.marker,
            ms=4.5,
            lw=1.3,
            fillstyle="none" if look.hollow else "full",
            label=str(name),
        )
        for name, look in styles.items()
    ]
    star = Line2D([], [], color=GREY, marker="*", ms=STAR, lw=2.4, alpha=0.8, label="optimum, its interval")
    shared = Line2D([], [], color=GREY, lw=1.0, ls=":", label="shared")
    has_shared = analysis.tuned is not None and analysis.tuned.shared_points
    return [*looks, star, *([shared] if has_shared else [])]
