"""The course of training inside: gradients, ranks, norms and dead channels, a line a variant."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.inspection.figures.strip import by_arm, line, looks, mean_and_range
from eval.report.figures.style import STYLE, add_legend, label_log_axis, new_figure
from eval.results.inspection import RunInspection

PANELS = {
    "gradient": "gradient norm (largest step logged)",
    "effective_rank": "effective rank of the output",
    "output_rms": "size of the FFN's output (rms)",
    "weight_rms": "size of the FFN's weights (rms)",
    "gradient_norm": "gradient norm of an FFN",
    "dead": "dead inner channels (%)",
}


def draw_stability(runs: Sequence[RunInspection]) -> tuple[Figure, str] | None:
    """Draw six panels over training steps; of layers their mean, of runs mean and range."""
    found, styles = by_arm(runs), looks(runs)
    with matplotlib.rc_context(STYLE):
        figure = new_figure(5.6)
        grid = figure.subplots(3, 2).ravel()
        for axes, (name, label) in zip(grid, PANELS.items(), strict=True):
            for _, arm in found:
                _draw(axes, arm, name, styles[arm[0].variant].colour)
            axes.set_title(label, fontsize=9)
            axes.locator_params(axis="x", nbins=5)
            if name == "dead":
                axes.set_ylim(0, max(1.0, axes.get_ylim()[1]))
            elif axes.lines and all(np.min(drawn.get_ydata()) > 0 for drawn in axes.lines):
                axes.set_yscale("log")
                label_log_axis(axes.yaxis)
        figure.supxlabel("training step", fontsize=9.5)
        add_legend(figure, [line(name, styles[arm[0].variant].colour) for name, arm in found])
    return figure, (
        "Gradient norms, effective rank, sizes of outputs and weights, and dead channels of the FFNs along "
        "training: mean over layers and runs, with the range of runs"
    )


def _draw(axes: Axes, arm: Sequence[RunInspection], name: str, colour: str) -> None:
    if name == "gradient":
        curves = [run.gradient_norms["largest"] for run in arm]
        steps = arm[0].gradient_norms["step"]
    else:
        curves = [_over_layers(run, name) for run in arm]
        steps = [moment.step for moment in arm[0].moments]
    known = [[value for value in curve if value is not None] for curve in curves]
    if not known or not known[0] or list(map(len, known)) != list(map(len, curves)):
        return
    factor = 100 if name == "dead" else 1
    mean, low, high = mean_and_range([factor * value for value in curve] for curve in known)
    axes.plot(steps[: len(mean)], mean, color=colour, lw=1.3)
    axes.fill_between(steps[: len(mean)], low, high, color=colour, alpha=0.1, lw=0)


def _over_layers(run: RunInspection, name: str) -> list[float | None]:
    found: list[float | None] = []
    for moment in run.moments:
        known = [value for value in moment.layers[name] if value is not None]
        found.append(sum(known) / len(known) if known else None)
    return found
