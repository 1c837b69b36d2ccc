"""The report's figures: SVG and PNG files that come out byte for byte the same from the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib
from matplotlib.figure import Figure

from base.errors import UsageError, unknown_name
from eval.report.analysis import Analysis
from eval.report.figures.style import STYLE, settle, to_png, to_svg
from eval.report.part import Draw, Drawing
from eval.report.parts import PARTS

__all__ = ["draw_all", "draw_one", "draws", "settled", "to_png", "to_svg"]


def draw_all(analysis: Analysis) -> dict[str, Drawing]:
    """Draw every figure that the analysis has numbers for.

    Returns:
        File name without suffix, mapped to the figure and its alternative text.
    """
    return {name: found for name, draw in draws(analysis).items() if (found := settled(draw))}


def draw_one(analysis: Analysis, name: str) -> Figure:
    """Draw one of these figures.

    Raises:
        UsageError: If there is none of that name for these scores.
    """
    known = draws(analysis)
    if name not in known:
        raise unknown_name("figure", name, known)
    if found := settled(known[name]):
        return found[0]
    raise UsageError(f"the figure {name!r} has nothing to show: its numbers are not among these scores")


def draws(analysis: Analysis) -> dict[str, Draw]:
    """Return what draws each figure, by its name; some will find nothing to draw."""
    return {
        name: draw
        for part in PARTS
        if (result := part.of(analysis)) is not None
        for name, draw in part.figures(analysis, result).items()
    }


def settled(draw: Draw, relabel: Callable[[Figure], None] | None = None) -> Drawing | None:
    """Draw a figure and lay it out; ``relabel`` may change its texts in between."""
    with matplotlib.rc_context(STYLE):
        found = draw()
        if found is not None:
            if relabel is not None:
                relabel(found[0])
            settle(found[0])
    return found
