"""Parameters of learnable activations as distributions over channels, along training."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.inspection.figures.strip import line, looks, make_small
from eval.report.figures.style import GREY, STYLE, add_legend, filled, new_figure
from eval.results.inspection import RunInspection

MOST_COLUMNS = 4
PANEL_IN = 1.25


def draw_parameters(runs: Sequence[RunInspection], arm: Sequence[RunInspection]) -> tuple[Figure, str] | None:
    """Draw how the parameters of one variant moved: quantiles of its first run, medians of all its runs."""
    names = list(arm[0].moments[0].parameters)
    if not names:
        return None
    shown = names[: 4 * MOST_COLUMNS]
    columns = min(MOST_COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    colour = looks(runs)[arm[0].variant].colour
    with matplotlib.rc_context(STYLE):
        figure = new_figure(PANEL_IN * lines + 0.5)
        grid = figure.subplots(lines, columns, squeeze=False).ravel()
        for axes in grid[len(shown) :]:
            axes.remove()
        for axes, name in zip(grid, shown, strict=False):
            _draw(axes, arm, name, colour)
        figure.supxlabel("training step", fontsize=8.5)
        add_legend(figure, [line("median channel of each run", colour), line("start", GREY, "--"),
                            line("5 to 95% and 25 to 75% of channels", colour, "-", 5)])  # fmt: skip
    return figure, (
        f"Parameters of {arm[0].variant} along training, by layer and place: quantiles over channels, with "
        f"the start dashed{'' if len(shown) == len(names) else f'; {len(shown)} of {len(names)} parameters'}"
    )


def _draw(axes: Axes, arm: Sequence[RunInspection], name: str, colour: str) -> None:
    steps = [moment.step for moment in arm[0].moments]
    bands = list(zip(*(moment.parameters[name] for moment in arm[0].moments), strict=True))
    for low, high, alpha in ((0, 4, 0.18), (1, 3, 0.3)):
        axes.fill_between(steps, bands[low], bands[high], color=colour, alpha=alpha, lw=0)
    for run in arm:
        found = [(m.step, m.parameters[name][2]) for m in run.moments if name in m.parameters]
        axes.plot(*zip(*found, strict=True), color=colour, lw=0.9)
    axes.axhline(bands[2][0], color=GREY, lw=0.9, ls="--", zorder=0)
    place, _, label = name.partition(" ")
    layer, _, number = place.partition(".")
    axes.set_title(filled(f"layer {layer}, {number}: {label}", 26), fontsize=8, pad=2)
    make_small(axes)
