"""Accuracy and time against the length of segments, as an SVG."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eval.interpretation.sufficiency_measures import Measured, sweet_spot
from eval.report.figures.style import AVERAGE_COLOUR as BLACK
from eval.report.figures.style import GREY, STYLE, add_legend, label_log_axis, panels, variant_styles

ITSELF = "the head"


def draw_lengths(found: Sequence[Measured], title: str) -> tuple[Figure, str]:
    """Draw two panels over the length of segments: accuracy, with the 97% point, and seconds.

    Args:
        found: One for each length.
        title: The task and the head, for the alt text.

    Returns:
        The figure, and its alt text.
    """
    with matplotlib.rc_context(STYLE):
        figure, (left, right) = panels(2, 2.7, columns=2)
        lengths = [one.window for one in found]
        names = [ITSELF, *(result.selection for result in found[0].results)]
        styles = variant_styles(names)
        lines = {ITSELF: [one.accuracy for one in found]}
        for place, name in enumerate(names[1:]):
            lines[name] = [one.results[place].accuracy for one in found]
        for name, values in lines.items():
            look = styles[name]
            left.plot(lengths, values, color=look.colour, ls=look.dashes, marker=look.marker, ms=4, lw=1.5)
        best = sweet_spot(list(found))
        left.axvline(best.window, color=GREY, lw=0.8, zorder=0)
        left.set_title(f"accuracy, 97% of the best: {best.window}")
        left.set_ylabel("percent of documents")
        _draw_seconds(right, found)
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_xticks(lengths, [str(length) for length in lengths])
            axes.set_xlabel("tokens of a segment")
        handles = [
            Line2D([], [], color=styles[name].colour, ls=styles[name].dashes, marker=styles[name].marker,
                   ms=4, lw=1.5, label=name if name == ITSELF else f"words of: {name}")
            for name in names
        ]  # fmt: skip
        add_legend(figure, handles)
    told = "; ".join(f"{one.window} tokens {one.accuracy:.1f}%" for one in found)
    return figure, (
        f"Accuracy and seconds of {title} against the length of segments: {told}. "
        f"97% of the best accuracy is reached from {best.window} tokens on."
    )


def _draw_seconds(axes: Axes, found: Sequence[Measured]) -> None:
    trained = [(one.window, one.train_seconds) for one in found if one.train_seconds is not None]
    predicted = [(one.window, one.predict_seconds) for one in found]
    for points, marker, colour in ((trained, "o", BLACK), (predicted, "s", GREY)):
        lengths, seconds = zip(*points, strict=True) if points else ((), ())
        axes.plot(lengths, seconds, color=colour, marker=marker, ms=4, lw=1.5)
    axes.set_yscale("log")
    label_log_axis(axes.yaxis)
    axes.set_title("seconds, ● training ■ reading")
