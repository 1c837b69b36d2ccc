"""Pictures of runs, and axes that can be saved as a figure can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib import pyplot
from matplotlib.axes import Axes

from ffn_ablations.runs import Run
from report.figures.style import PALETTE, SMALL, STYLE


def savable(axes: Axes) -> Axes:
    """Give axes the ``savefig`` of their figure, which is what many call on whatever ``plot`` returns."""
    axes.savefig = axes.figure.savefig  # type: ignore[missing-attribute]
    return axes


def draw_losses(runs: Sequence[Run], ax: Axes | None) -> Axes:
    """Draw the held-out loss of each run over its steps, a colour for each variant of a family."""
    figure = pyplot.figure(figsize=(6.2, 3.6), layout="constrained") if ax is None else None
    has_families = len({run.family for run in runs}) > 1
    colours: dict[str, str] = {}
    with matplotlib.rc_context(STYLE):
        axes: Any = ax if figure is None else figure.subplots()
        for run in runs:
            name = f"{run.family} {run.variant}" if has_families else run.variant
            label = "_" if name in colours else name
            colour = colours.setdefault(name, PALETTE[len(colours) % len(PALETTE)])
            axes.plot(run.curve["step"], run.curve["loss"], color=colour, label=label, linewidth=1.2)
        axes.set(xlabel="step", ylabel="held-out loss (nats per token)")
        axes.legend(fontsize=SMALL)
    return savable(axes)
