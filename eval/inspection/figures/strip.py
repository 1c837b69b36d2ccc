"""A strip of a variant's functions along training: a column a step, a row a layer."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure

from eval.inspection.figures.common import looks, make_small
from eval.report.figures.style import SMALL, STYLE, new_figure, settle
from eval.results.inspection import Moment, RunInspection
from eval.zero_shot.task import evenly_spaced

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
        settle(figure)
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
