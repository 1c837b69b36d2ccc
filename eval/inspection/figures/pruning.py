"""Loss, accuracy and margins against the share of edges or neurons removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.inspection.figures.strip import by_arm, line, looks, mean_and_range
from eval.report.figures.style import GREY, STYLE, add_legend, new_figure
from eval.results.inspection import PruningCurve, RunInspection

MOST_RISE = 4.0
"""Nats beyond which a model is broken anyway."""


def draw_pruning(runs: Sequence[RunInspection]) -> tuple[Figure, str] | None:
    """Draw four panels: loss by edges and by neurons, accuracy and margin by edges."""
    found = [(name, arm) for name, arm in by_arm(runs) if all(run.pruning for run in arm)]
    if not found:
        return None
    styles = looks(runs)
    has_pairs = any(curve.accuracy for _, arm in found for curve in arm[0].pruning)
    with matplotlib.rc_context(STYLE):
        figure = new_figure(2.3 * (2 if has_pairs else 1))
        grid = figure.subplots(2 if has_pairs else 1, 2, squeeze=False).ravel()
        panels: list[tuple[str, str, Callable[[PruningCurve], Sequence[float]]]] = [
            ("edges", "rise of the loss (nats)", _rise),
            ("neurons", "rise of the loss (nats)", _rise),
            ("edges", "accuracy (%)", lambda curve: curve.accuracy),
            ("edges", "margin of pairs (nats)", lambda curve: curve.log_odds),
        ]
        for axes, (what, label, values) in zip(grid, panels, strict=False):
            for _, arm in found:
                _draw(axes, arm, what, values, styles[arm[0].variant].colour)
            axes.set_xlabel(f"{what} removed, least active first (%)")
            axes.set_ylabel(label)
            if values is _rise:
                axes.axhline(0, color=GREY, lw=0.8, zorder=0)
                axes.set_ylim(-0.1, MOST_RISE)
        handles = [line(name, styles[arm[0].variant].colour) for name, arm in found]
        add_legend(figure, [*handles, line("edges at random", "black", ":", 1)])
    return figure, (
        "What a share of edges or neurons, removed without further training, costs: mean over runs with the "
        "range of runs; dotted, the rise of the loss where edges go at random"
    )


def _rise(curve: PruningCurve) -> Sequence[float]:
    return [loss - curve.loss[0] for loss in curve.loss]


def _draw(
    axes: Axes,
    arm: Sequence[RunInspection],
    what: str,
    values: Callable[[PruningCurve], Sequence[float]],
    colour: str,
) -> None:
    for order, dashes, width in (("activity", "-", 1.6), ("random", ":", 1.0)):
        curves = [c for run in arm for c in run.pruning if (c.what, c.order) == (what, order)]
        curves = [curve for curve in curves if len(values(curve))]
        if not curves:
            continue
        mean, low, high = mean_and_range(values(curve) for curve in curves)
        shares = [100 * share for share in curves[0].shares]
        axes.plot(shares, mean, color=colour, ls=dashes, lw=width)
        if order == "activity":
            axes.fill_between(shares, low, high, color=colour, alpha=0.12, lw=0)
