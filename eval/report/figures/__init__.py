"""The report's figures: SVG and PNG files that come out byte for byte the same from the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import matplotlib
from matplotlib.figure import Figure

from base.errors import UsageError, unknown_name
from eval.report.analysis import Analysis
from eval.report.document.names import figure_names
from eval.report.figures.cost import draw_cost
from eval.report.figures.forest import draw_forest, draw_forests
from eval.report.figures.heat_map import draw_heat_map
from eval.report.figures.learning_curves import draw_learning_curves
from eval.report.figures.published import draw_published
from eval.report.figures.ranking import draw_ranking
from eval.report.figures.seeds import draw_seeds
from eval.report.figures.sizes import draw_across_sizes, draw_size_laws
from eval.report.figures.style import STYLE, settle, to_png, to_svg
from eval.report.figures.training import draw_gradient_norms
from eval.report.figures.tuning import draw_tuning
from eval.report.verdicts.ranking import shown_first

__all__ = ["draw_all", "draw_one", "draws", "settled", "to_png", "to_svg"]

PER_REPORT = {
    "forest": draw_forests,
    "seeds": draw_seeds,
    "across-sizes": draw_across_sizes,
    "size-laws": draw_size_laws,
    "cost": draw_cost,
    "learning-curves": draw_learning_curves,
    "gradient-norms": draw_gradient_norms,
    "published": draw_published,
    "tuning": draw_tuning,
    "ranking": draw_ranking,
}
PER_BENCHMARK = {"forest": draw_forest, "heat-map": draw_heat_map}


def draw_all(analysis: Analysis) -> dict[str, tuple[Figure, str]]:
    """Draw every figure that the analysis has numbers for.

    Returns:
        File name without suffix (``forest``, ``seeds``, ``across-sizes``, ``size-laws``, ``cost``,
        ``learning-curves``, ``gradient-norms``, ``published``, ``tuning``, ``ranking``; ``heat-map-blimp``;
        ``forest-blimp`` for what is not in ``forest``), mapped to the figure and its alt text.
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


def draws(analysis: Analysis) -> dict[str, Callable[[], tuple[Figure, str] | None]]:
    """Return what draws each figure, by its name; some will find nothing to draw."""
    found: dict[str, Callable[[], tuple[Figure, str] | None]] = {
        name: partial(draw, analysis) for name, draw in PER_REPORT.items()
    }
    for kind, draw in PER_BENCHMARK.items():
        for benchmark, name in figure_names(kind, analysis.benchmarks).items():
            if kind != "forest" or benchmark not in shown_first(analysis):
                found[name] = partial(draw, analysis, benchmark)
    return found


def settled(draw: Callable[[], tuple[Figure, str] | None]) -> tuple[Figure, str] | None:
    """Draw a figure and lay it out."""
    with matplotlib.rc_context(STYLE):
        found = draw()
        if found is not None:
            settle(found[0])
    return found
