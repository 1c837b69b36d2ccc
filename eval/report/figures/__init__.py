"""The report's figures: SVG and PNG files that come out byte for byte the same from the same numbers."""

from __future__ import annotations

import matplotlib
from matplotlib.figure import Figure

from eval.report.analysis import Analysis
from eval.report.figures.cost import draw_cost
from eval.report.figures.forest import draw_forest, draw_forests
from eval.report.figures.heat_map import draw_heat_map
from eval.report.figures.learning_curves import draw_learning_curves
from eval.report.figures.published import draw_published
from eval.report.figures.seeds import draw_seeds
from eval.report.figures.style import STYLE, settle, to_png, to_svg
from eval.report.figures.training import draw_gradient_norms
from eval.report.names import figure_names
from eval.report.standing import shown_first

__all__ = ["draw_all", "to_png", "to_svg"]

PER_REPORT = {
    "forest": draw_forests,
    "seeds": draw_seeds,
    "cost": draw_cost,
    "learning-curves": draw_learning_curves,
    "gradient-norms": draw_gradient_norms,
    "published": draw_published,
}
PER_BENCHMARK = {"forest": draw_forest, "heat-map": draw_heat_map}


def draw_all(analysis: Analysis) -> dict[str, tuple[Figure, str]]:
    """Draw every figure that the analysis has numbers for.

    Returns:
        File name without suffix (``forest``, ``seeds``, ``cost``, ``learning-curves``,
        ``gradient-norms``, ``published``; ``heat-map-blimp``; ``forest-blimp`` for what is not in
        ``forest``), mapped to the figure and its alt text.
    """
    with matplotlib.rc_context(STYLE):
        drawn = {name: draw(analysis) for name, draw in PER_REPORT.items()}
        for kind, draw in PER_BENCHMARK.items():
            for benchmark, name in figure_names(kind, analysis.benchmarks).items():
                if kind != "forest" or benchmark not in shown_first(analysis):
                    drawn[name] = draw(analysis, benchmark)
        figures = {name: found for name, found in drawn.items() if found is not None}
        for figure, _ in figures.values():
            settle(figure)
    return figures
