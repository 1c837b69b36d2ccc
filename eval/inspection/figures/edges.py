"""KAN edges: an atlas of the strongest, and how many shapes they have beside what algebra and chance give."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from eval.inspection.figures.strip import by_arm, draw_density, line, looks, make_small
from eval.report.figures.style import GREY, SMALL, STYLE, add_legend, filled, new_figure
from eval.results.inspection import Edge, RunInspection

SHOWN = 6
CONTROLS = {"trained": "-", "untrained": "--", "random": ":"}


def draw_atlas(runs: Sequence[RunInspection], arm: Sequence[RunInspection]) -> tuple[Figure, str] | None:
    """Draw the strongest edges of each KAN layer of a variant's first run, on the inputs that occur."""
    layers = arm[0].edges
    if not layers:
        return None
    colour = looks(runs)[arm[0].variant].colour
    with matplotlib.rc_context(STYLE):
        figure = new_figure(1.12 * len(layers) + 0.35)
        grid = figure.subplots(len(layers), SHOWN, squeeze=False, sharey="row")
        for row, layer in zip(grid, layers, strict=True):
            for axes in row[len(layer.atlas) :]:
                axes.remove()
            shown = list(zip(row, layer.atlas, strict=False))
            for axes, edge in shown:
                _edge(axes, edge, colour)
            for axes, edge in shown:  # last, as all curves of the row decide on its limits
                draw_density(axes, layer.places, layer.density)
                axes.set_xlim(min(edge.points), max(edge.points))
            row[0].set_ylabel(f"layer {layer.layer}, {layer.place}", fontsize=SMALL)
    return figure, (
        f"The strongest edges of each KAN layer of {arm[0].variant} (seed {arm[0].seed}) on the inputs that "
        "occur, titled by output, input and the closed form that fits with R2 of 0.99, or by the best R2"
    )


def _edge(axes: Axes, edge: Edge, colour: str) -> None:
    axes.plot(edge.points, edge.values, color=colour, lw=1.2)
    said = edge.form or f"R² {edge.r2:.2f}"
    axes.set_title(f"{edge.output}←{edge.input}\n{said}", fontsize=7, pad=2)
    make_small(axes, 2)


def draw_components(runs: Sequence[RunInspection]) -> tuple[Figure, str] | None:
    """Draw the variance that the first components explain, trained, untrained and of random functions."""
    found = [(name, arm) for name, arm in by_arm(runs) if arm[0].edges]
    if not found:
        return None
    with matplotlib.rc_context(STYLE):
        columns = min(3, len(found))
        lines = -(-len(found) // columns)
        figure = new_figure(2.3 * lines)
        grid = figure.subplots(lines, columns, squeeze=False, sharey=True).ravel()
        for axes in grid[len(found) :]:
            axes.remove()
        styles = looks(runs)
        for axes, (name, arm) in zip(grid, found, strict=False):
            _components(axes, arm, styles[arm[0].variant].colour)
            axes.set_title(filled(name, 28))
        grid[0].set_ylabel("variance left (%)")
        figure.supxlabel("components", fontsize=9.5)
        add_legend(figure, [line(name, "black", dashes) for name, dashes in CONTROLS.items()]
                   + [line("most that the basis can have", GREY, "-", 0.8)])  # fmt: skip
    return figure, (
        "Share of the variance of the edges that is left after the first components, mean over layers and "
        "runs: trained, untrained, and of random functions of the same basis; a line marks the number of "
        "components that the basis can have at most, whatever is learned"
    )


def _components(axes: Axes, arm: Sequence[RunInspection], colour: str) -> None:
    bound = max(layer.bound for layer in arm[0].edges)
    for kind, dashes in CONTROLS.items():
        left = [
            100 * (1 - np.cumsum(_padded(layer.explained[kind], bound))) for run in arm for layer in run.edges
        ]
        mean = np.clip(np.mean(left, 0), 1e-4, None)
        look = {"color": colour, "marker": "o", "ms": 3} if kind == "trained" else {"color": "black"}
        axes.plot(range(1, bound + 1), mean, ls=dashes, lw=1.5, **look)  # type: ignore[bad-argument-type]
    axes.axvline(bound, color=GREY, lw=0.8)
    axes.set_yscale("log")
    axes.set_ylim(1e-2, 100)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.locator_params(axis="x", integer=True, nbins=6)


def _padded(values: Sequence[float], length: int) -> np.ndarray:
    return np.pad(np.asarray(values[:length]), (0, max(0, length - len(values))))
