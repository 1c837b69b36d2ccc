"""What figures of a look inside share, and the strip of functions along training: a column a step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eval.inspection.findings import arms
from eval.report.figures.style import GREY, SMALL, STYLE, VariantStyle, new_figure, variant_styles
from eval.results.inspection import Moment, RunInspection
from eval.zero_shot.task import evenly_spaced

DENSITY_SHARE = 0.28
"""Of a panel's height, that the inputs under a curve take."""
TINY = 7


def looks(runs: Sequence[RunInspection]) -> dict[str, VariantStyle]:
    """Give each variant one look in all figures."""
    return variant_styles(list(dict.fromkeys(run.variant for run in runs)))  # type: ignore[bad-return]


def by_arm(runs: Sequence[RunInspection]) -> list[tuple[str, list[RunInspection]]]:
    """Runs by what a reader calls them: the variant, with the family where there are several."""
    grouped = arms(runs)
    several = len({family for family, _ in grouped}) > 1
    return [
        (f"{variant}, {family}" if several else variant, found)
        for (family, variant), found in grouped.items()
    ]


def draw_density(axes: Axes, places: Sequence[float], density: Sequence[float]) -> None:
    """Fill where the inputs lie along the bottom of a panel, without changing its limits."""
    low, high = axes.get_ylim()
    heights = np.asarray(density) / max(max(density), 1e-12) * DENSITY_SHARE * (high - low)
    axes.fill_between(places, low, low + heights, color=GREY, alpha=0.25, lw=0, zorder=0)
    axes.set_ylim(low, high)


def make_small(axes: Axes, ticks: int = 3) -> None:
    """Few ticks with small numbers, for many panels side by side."""
    axes.tick_params(labelsize=TINY, pad=1.5, length=2)
    axes.locator_params(nbins=ticks)


def line(label: str, colour: str, dashes: str = "-", width: float = 1.7) -> Line2D:
    """An entry of a legend."""
    return Line2D([], [], color=colour, ls=dashes, lw=width, label=label)


def mean_and_range(curves: Iterable[Sequence[float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, lowest and highest over runs, point by point; runs of another length are left out."""
    found = [np.asarray(curve, dtype=float) for curve in curves]
    table = np.stack([curve for curve in found if len(curve) == len(found[0])])
    return table.mean(0), table.min(0), table.max(0)


FRAMES = 6
EDGES = 6


def draw_strip(runs: Sequence[RunInspection], arm: Sequence[RunInspection]) -> tuple[Figure, str] | None:
    """Draw the functions of a variant's first run at some steps, the first and the last among them."""
    run = arm[0]
    places = list(run.moments[-1].curves)
    if not places or len(run.moments) < 3:
        return None
    frames = _frames(run.moments)
    colour = looks(runs)[run.variant].colour
    with matplotlib.rc_context(STYLE):
        figure = new_figure(0.95 * len(places) + 0.45)
        grid = figure.subplots(len(places), len(frames), squeeze=False, sharey="row", sharex="row")
        for row, place in zip(grid, places, strict=True):
            points = _points(run, place)
            for axes, frame in zip(row, frames, strict=True):
                for number, curve in enumerate(frame.curves[place][:EDGES]):
                    axes.plot(
                        points[number % len(points)], curve, color=colour, lw=1.0 if number == 0 else 0.6
                    )
                make_small(axes, 1 if len(frames) > 4 else 2)
            layer, _, number = place.partition(".")
            row[0].set_ylabel(f"layer {layer}, {number}", fontsize=SMALL)
        for axes, frame in zip(grid[0], frames, strict=True):
            axes.set_title(f"step {frame.step:,}", fontsize=8, pad=2)
    return figure, (
        f"The functions of {run.variant} (seed {run.seed}) along training, a row a layer and a column a "
        "step: the median channel of an activation, or the edges that were the strongest in the end"
    )


def _frames(moments: Sequence[Moment]) -> list[Moment]:
    inner = evenly_spaced(list(moments[1:-1]), FRAMES - 2)
    return [moments[0], *inner, moments[-1]]


def _points(run: RunInspection, place: str) -> list[list[float]]:
    layer, _, number = place.partition(".")
    key = int(layer), int(number)
    for look in run.edges:
        if (look.layer, look.place) == key:
            return [edge.points for edge in look.atlas]
    return [look.points for look in run.activations if (look.layer, look.place) == key]
