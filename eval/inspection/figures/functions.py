"""Every variant's functions on one page: activations over their channels, and the strongest edges of KANs."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.inspection.figures.strip import by_arm, draw_density, line, looks, make_small
from eval.report.figures.style import GREY, SMALL, STYLE, add_legend, filled, new_figure
from eval.results.inspection import ActivationLayer, EdgeLayer, RunInspection

ROW_IN = 1.15
DRAWN_EDGES = 6

Look = ActivationLayer | EdgeLayer


def draw_functions(runs: Sequence[RunInspection]) -> tuple[Figure, str] | None:
    """Draw a row of panels a variant, one for each elementwise function or KAN layer of its first run."""
    rows = [(name, found) for name, found in by_arm(runs) if _drawn(found[0])]
    if not rows:
        return None
    styles = looks(runs)
    columns = max(len(_drawn(found[0])) for _, found in rows)
    with matplotlib.rc_context(STYLE):
        figure = new_figure(ROW_IN * len(rows) + 0.5)
        grid = figure.subplots(len(rows), columns, squeeze=False)
        for line_of, (name, found) in zip(grid, rows, strict=True):
            for axes in line_of[len(_drawn(found[0])) :]:
                axes.remove()
            for place, axes in enumerate(line_of[: len(_drawn(found[0]))]):
                _draw(axes, [_drawn(run)[place] for run in found], styles[found[0].variant].colour)
            line_of[0].set_ylabel(filled(name, 14), fontsize=SMALL)
        add_legend(figure, [
            line("median channel, or strongest edge, of each run", "black"), line("start", GREY, "--"),
            line("5 to 95% of channels, or further edges", GREY, "-", 4), line("inputs", "#d5d5d5", "-", 8),
        ])  # fmt: skip
    names = ", ".join(name for name, _ in rows)
    return figure, (
        f"What the functions inside {names} became: a row of panels for each variant, a panel for each "
        "function of its layers, with the start dashed and the inputs as a grey area under the curves"
    )


def _drawn(run: RunInspection) -> Sequence[Look]:
    return run.edges or run.activations


def _draw(axes: Axes, looks_of_runs: Sequence[Look], colour: str) -> None:
    first = looks_of_runs[0]
    if isinstance(first, ActivationLayer):
        for low, high, alpha in ((0, 4, 0.18), (1, 3, 0.3)):
            axes.fill_between(
                first.points, first.bands[low], first.bands[high], color=colour, alpha=alpha, lw=0
            )
        for look in looks_of_runs:
            axes.plot(look.points, look.bands[2], color=colour, lw=1, alpha=0.8)  # type: ignore[missing-attribute]
        axes.plot(first.points, first.initial, color=GREY, lw=1.1, ls="--", zorder=4)
        draw_density(axes, first.points, first.density)
    else:
        for edge in first.atlas[1:DRAWN_EDGES]:
            axes.plot(edge.points, edge.values, color=colour, lw=0.7, alpha=0.4)
        for look in looks_of_runs:
            strongest = look.atlas[0]  # type: ignore[missing-attribute]
            axes.plot(strongest.points, strongest.values, color=colour, lw=1.1)
        draw_density(axes, first.places, first.density)
    axes.set_title(f"layer {first.layer}, {_ordinal(first.place)}", fontsize=8, pad=2)
    make_small(axes)


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second"}.get(number, f"number {number}")
