"""The figures of an inspection: learned functions, the importance of edges, and pruning."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from inside.ffn.edges import SHARES
from inside.ffn.measure import Arms
from inside.ffn.record import ActivationLayer, EdgeLayer, RunInspection
from report.document.document import Drawing
from report.figures.style import (
    GREY,
    SMALL,
    STYLE,
    VariantStyle,
    add_legend,
    filled,
    new_figure,
    panels,
    settle,
    variant_styles,
)

ROW_IN = 1.15
PANEL_IN = 2.3
DENSITY_SHARE = 0.28
"""Of a panel's height, that the inputs under a curve take."""
MOST_RISE = 4.0
"""Nats beyond which a model is broken anyway."""

Styles = dict[str, VariantStyle]


def draw_all(arms: Arms) -> dict[str, Drawing]:
    """Draw what these runs have; by name a figure and its alternative text."""
    styles: Styles = variant_styles(list(arms))  # type: ignore[bad-assignment]
    with matplotlib.rc_context(STYLE):
        drawings = {
            "functions": draw_functions(arms, styles),
            "importance": draw_importance(arms, styles),
            "pruning": draw_pruning(arms, styles),
        }
        shown = {name: drawing for name, drawing in drawings.items() if drawing is not None}
        for figure, _ in shown.values():
            settle(figure)
    return shown


def draw_functions(arms: Arms, styles: Styles) -> Drawing | None:
    """Draw a row of panels for each variant, one for each activation or KAN layer."""
    rows = {name: arm for name, arm in arms.items() if _functions(arm[0])}
    if not rows:
        return None
    columns = max(len(_functions(arm[0])) for arm in rows.values())
    figure = new_figure(ROW_IN * len(rows) + 0.5)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for panels_of_row, (name, arm) in zip(grid, rows.items(), strict=True):
        places = list(zip(*map(_functions, arm), strict=True))
        for axes in panels_of_row[len(places) :]:
            axes.remove()
        for place, (axes, layers) in enumerate(zip(panels_of_row, places, strict=False)):
            _draw_layer(axes, layers, styles[name].colour)
            in_layer = 1 + sum(other[0].layer == layers[0].layer for other in places[:place])
            axes.set_title(f"layer {layers[0].layer}, {in_layer}", fontsize=8, pad=2)
        panels_of_row[0].set_ylabel(filled(name, 14), fontsize=SMALL)
    add_legend(figure, [
        _line("median channel, or top edge, of each run", "black"), _line("start", GREY, "--"),
        _line("5 to 95% of channels, or further edges", GREY, "-", 4), _line("inputs", "#d5d5d5", "-", 8),
    ])  # fmt: skip
    return figure, (
        f"Functions inside {', '.join(rows)}: a row for each variant, a panel for each function or KAN "
        "layer by its number and place in the transformer layer, with the start dashed and the inputs of "
        "activations as a grey area"
    )


def _functions(run: RunInspection) -> Sequence[ActivationLayer | EdgeLayer]:
    return run.edges or run.activations


def _draw_layer(axes: Axes, layers: Sequence[ActivationLayer | EdgeLayer], colour: str) -> None:
    for layer in layers:
        if isinstance(layer, ActivationLayer):
            axes.plot(layer.points, layer.bands[2], color=colour, lw=1, alpha=0.8)
        else:
            axes.plot(layer.strongest[0].points, layer.strongest[0].values, color=colour, lw=1.1)
    if isinstance(first := layers[0], ActivationLayer):
        for low, high, alpha in ((0, 4, 0.18), (1, 3, 0.3)):
            area = (first.points, first.bands[low], first.bands[high])
            axes.fill_between(*area, color=colour, alpha=alpha, lw=0)
        axes.plot(first.points, first.initial, color=GREY, lw=1.1, ls="--", zorder=4)
        _draw_density(axes, first)
    else:
        for edge in first.strongest[1:]:
            axes.plot(edge.points, edge.values, color=colour, lw=0.7, alpha=0.4)
        top = first.strongest[0]
        axes.plot(top.points, top.initial, color=GREY, lw=1.1, ls="--", zorder=4)
    axes.tick_params(labelsize=7, pad=1.5, length=2)
    axes.locator_params(nbins=3)


def _draw_density(axes: Axes, layer: ActivationLayer) -> None:
    """Fill where the inputs lie along the bottom of a panel, without changing its limits."""
    low, high = axes.get_ylim()
    heights = np.asarray(layer.density) / max(layer.density) * DENSITY_SHARE * (high - low)
    axes.fill_between(layer.points, low, low + heights, color=GREY, alpha=0.25, lw=0, zorder=0)
    axes.set_ylim(low, high)


def draw_importance(arms: Arms, styles: Styles) -> Drawing | None:
    """Draw for each KAN the share of all variance that a share of its edges carries."""
    kans = {name: arm for name, arm in arms.items() if arm[0].edges}
    if not kans:
        return None
    figure, grid = panels(len(kans), PANEL_IN, columns=min(3, len(kans)), sharey=True)
    shares = 100 * np.array(SHARES)
    for axes, (name, arm) in zip(grid, kans.items(), strict=True):
        for kind, colour, dashes in (("trained", styles[name].colour, "-"), ("untrained", GREY, "--")):
            carried = [layer.carried[kind] for run in arm for layer in run.edges]
            axes.plot(shares, 100 * np.mean(carried, 0), lw=1.5, color=colour, ls=dashes)
        axes.plot(shares, shares, color="black", ls=":", lw=1)
        axes.set_title(filled(name, 28))
    grid[0].set_ylabel("variance carried (%)")
    figure.supxlabel("most important edges (%)", fontsize=9.5)
    handles = [
        _line("trained", "black"),
        _line("untrained", GREY, "--"),
        _line("chosen at random", "black", ":", 1),
    ]
    add_legend(figure, handles)
    return figure, (
        "Share of the variance of all edges that the most important edges carry, mean over layers and runs: "
        "trained, untrained, and of edges chosen at random, which carry their share on average"
    )


def draw_pruning(arms: Arms, styles: Styles) -> Drawing | None:
    """Draw the rise of the loss against the share of edges, and of units, that is removed."""
    pruned = {name: arm for name, arm in arms.items() if arm[0].pruning}
    if not pruned:
        return None
    figure, grid = panels(2, PANEL_IN, columns=2, sharey=True)
    for axes, what in zip(grid, ("edges", "units"), strict=True):
        for name, arm in pruned.items():
            _draw_curves(axes, arm, what, styles[name].colour)
        axes.axhline(0, color=GREY, lw=0.8, zorder=0)
        axes.set_ylim(-0.1, MOST_RISE)
        axes.set_xlabel(f"{what} removed (%)")
    grid[0].set_ylabel("rise of the loss (nats)")
    handles = [_line(name, styles[name].colour) for name in pruned]
    add_legend(figure, [*handles, _line("in random order", "black", ":", 1)])
    return figure, (
        "Rise of the held-out loss against the share of edges or units removed, the least important first, "
        "mean and range over runs; dotted, in random order"
    )


def _draw_curves(axes: Axes, arm: Sequence[RunInspection], what: str, colour: str) -> None:
    for order, dashes in (("importance", "-"), ("random", ":")):
        curves = [curve for run in arm for curve in run.pruning if (curve.what, curve.order) == (what, order)]
        rises, shares = np.array([curve.rises for curve in curves]), 100 * np.array(curves[0].shares)
        axes.plot(shares, rises.mean(0), color=colour, ls=dashes, lw=1.6 if order == "importance" else 1)
        if order == "importance":
            axes.fill_between(shares, rises.min(0), rises.max(0), color=colour, alpha=0.12, lw=0)


def _line(label: str, colour: str, dashes: str = "-", width: float = 1.7) -> Line2D:
    return Line2D([], [], color=colour, ls=dashes, lw=width, label=label)
