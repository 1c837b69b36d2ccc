"""Differences to the baseline against size, and losses with the power laws through them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eval.report.analysis import Analysis
from eval.report.curves.sizes import SizeLaw
from eval.report.document.markdown import arrow, unit_name
from eval.report.document.names import family_label, title
from eval.report.figures.style import (
    GREY,
    VariantStyle,
    add_legend,
    filled,
    label_log_axis,
    panels,
    variant_styles,
)
from eval.report.verdicts.ranking import shown_first
from eval.significance.axes import Benchmark, Level

PANEL_IN = 2.5
STEP, MOST_SPREAD = 0.015, 0.12  # shares of the axis: between variants at one size, and of them all
MILLION = 1e6
PARAMETERS = "parameters (millions)"


def draw_across_sizes(analysis: Analysis) -> tuple[Figure, str] | None:
    """Draw differences to the baseline with intervals, one line a variant, one panel an outcome."""
    present = {x.benchmark for x in analysis.sizes.differences}
    shown = [name for name in shown_first(analysis) if name in present]
    if not shown:
        return None
    figure, drawn = panels(len(shown), PANEL_IN, columns=2)
    for axes, benchmark in zip(drawn, shown, strict=True):
        _differences(axes, analysis, benchmark)
    styles = variant_styles(analysis.variants)
    found = {x.variant for x in analysis.sizes.differences if x.benchmark in shown}
    add_legend(figure, [_handle(str(v), styles[v]) for v in analysis.others if v in found])
    return figure, (
        f"Difference to {analysis.baseline} against its parameters, on a logarithmic axis, of "
        f"{', '.join(map(title, shown))}: one line per {analysis.noun}, with {analysis.confidence:.0%} "
        "intervals of each size by itself"
    )


def _differences(axes: Axes, analysis: Analysis, benchmark: Benchmark) -> None:
    styles = variant_styles(analysis.variants)
    points = [x for x in analysis.sizes.differences if x.benchmark == benchmark]
    ends = np.log([min(x.parameters for x in points), max(x.parameters for x in points)])
    beside = _beside(analysis.others, float(ends[1] - ends[0]))
    axes.axhline(0, color=GREY, lw=0.9, zorder=1)
    for variant in analysis.others:
        own = [x for x in points if x.variant == variant]
        if not own:
            continue
        style = styles[variant]
        x = [point.parameters / MILLION * beside[variant] for point in own]
        y = [point.estimate for point in own]
        # Without an interval there is nothing to draw; nan leaves it out.
        below, above = (
            [
                abs((end if end is not None else np.nan) - p.estimate)
                for p, end in zip(own, of_ends, strict=True)
            ]
            for of_ends in ([p.low for p in own], [p.high for p in own])
        )
        axes.errorbar(
            x, y, yerr=[below, above], color=style.colour, ls=style.dashes, lw=1.4, elinewidth=1.0,
            marker=style.marker, ms=5, mew=1.2, mfc="white" if style.hollow else style.colour, zorder=3,
        )  # fmt: skip
    _size_axis(axes, [x.parameters for x in points])
    outcome = analysis.outcome(benchmark)
    unit = unit_name(outcome.unit)
    axes.set_title(f"{filled(title(benchmark), 30)} {arrow(outcome)}")
    axes.set_ylabel(f"difference to {analysis.baseline}{f' ({unit})' if unit else ''}")
    axes.set_xlabel(f"{PARAMETERS} of {analysis.baseline}")


def draw_size_laws(analysis: Analysis) -> tuple[Figure, str] | None:
    """Draw losses with the laws through all sizes, and what the smaller sizes predict of the largest."""
    laws = analysis.sizes.laws
    families = list(dict.fromkeys(law.family for law in laws))
    if not families:
        return None
    figure, drawn = panels(len(families), PANEL_IN + 0.4, columns=2)
    styles = variant_styles(analysis.variants)
    for axes, family in zip(drawn, families, strict=True):
        own = [law for law in laws if law.family == family]
        for law in own:
            _law(axes, law, styles[law.variant])
        _size_axis(axes, [size for law in own for size in law.parameters])
        axes.set_yscale("log")
        label_log_axis(axes.yaxis)
        axes.set_title(filled(family_label(family), 40))
        axes.set_xlabel(PARAMETERS)
        axes.set_ylabel("held-out loss (nats)")
    shown, curved = {law.variant for law in laws}, {law.variant for law in laws if law.is_law}
    handles = [_handle(str(v), styles[v], v in curved) for v in analysis.variants if v in shown]
    if any(law.prediction for law in laws):
        handles.append(
            Line2D([], [], color=GREY, marker="_", ms=9, mew=1.6, lw=0, label="predicted from smaller")
        )
    add_legend(figure, handles)
    return figure, (
        "Held-out loss against parameters, both on logarithmic axes, with the power law through the sizes of "
        f"each {analysis.noun} that has one; short bars are losses predicted for the largest size from the "
        "smaller ones"
    )


def _law(axes: Axes, law: SizeLaw, style: VariantStyle) -> None:
    sizes = np.array(law.parameters)
    axes.errorbar(
        sizes / MILLION, law.losses, yerr=law.half_widths, color=style.colour, lw=0, elinewidth=1.0,
        marker=style.marker, ms=5, mew=1.2, mfc="white" if style.hollow else style.colour, zorder=3,
    )  # fmt: skip
    if law.is_law:
        fine = np.geomspace(sizes[0], sizes[-1], 100)
        fitted = law.floor + law.scale * fine**-law.exponent
        axes.plot(fine / MILLION, fitted, color=style.colour, ls=style.dashes, lw=1.2, zorder=2)
    if (found := law.prediction) is not None:
        axes.plot(sizes[-1] / MILLION, found.predicted, "_", color=style.colour, ms=11, mew=1.6, zorder=4)


def _size_axis(axes: Axes, sizes: Sequence[float]) -> None:
    axes.set_xscale("log")
    low, high = min(sizes) / MILLION, max(sizes) / MILLION
    room = (high / low) ** 0.08
    axes.set_xlim(low / room, high * room)
    label_log_axis(axes.xaxis)
    axes.grid(color="#ececec", lw=0.6)
    axes.set_axisbelow(True)


def _beside(variants: Iterable[Level], log_range: float) -> dict[Level, float]:
    """Factors by which variants move apart at one size, so that no interval hides another."""
    names = list(variants)
    spread = min(STEP * (len(names) - 1), MOST_SPREAD) * log_range
    places = np.linspace(-0.5, 0.5, len(names)) if len(names) > 1 else np.zeros(1)
    return {name: float(np.exp(spread * at)) for name, at in zip(names, places, strict=True)}


def _handle(name: str, style: VariantStyle, has_line: bool = True) -> Line2D:
    fill, line = "white" if style.hollow else style.colour, style.dashes if has_line else ""
    return Line2D(
        [], [], color=style.colour, marker=style.marker, ls=line, mfc=fill, mew=1.2, ms=5, lw=1.4, label=name
    )
