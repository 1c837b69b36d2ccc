"""The report's figures: SVG and PNG files that come out byte for byte the same from the same numbers."""

from __future__ import annotations

import matplotlib
from matplotlib.figure import Figure

from eval.report.analysis import Analysis
from eval.report.figures.cost import draw_cost
from eval.report.figures.forest import draw_forest
from eval.report.figures.heat_map import draw_heat_map
from eval.report.figures.learning_curves import draw_learning_curves
from eval.report.figures.seeds import draw_seeds
from eval.report.figures.style import STYLE, settle, to_png, to_svg
from eval.report.figures.training import draw_gradient_norms
from eval.report.names import figure_names

__all__ = ["draw_all", "to_png", "to_svg"]

PER_BENCHMARK = {
    "forest": draw_forest,
    "seeds": draw_seeds,
    "heat-map": draw_heat_map,
    "cost": draw_cost,
}
PER_REPORT = {"learning-curves": draw_learning_curves, "gradient-norms": draw_gradient_norms}


def draw_all(analysis: Analysis) -> dict[str, tuple[Figure, str]]:
    """Draw every figure that the analysis has numbers for.

    Returns:
        File name without suffix (``forest-blimp``, ``seeds-blimp``, ``heat-map-blimp``, ``cost-blimp``,
        ``learning-curves``, ``gradient-norms``), mapped to the figure and its alt text.
    """
    figures = {}
    with matplotlib.rc_context(STYLE):
        names = {kind: figure_names(kind, analysis.benchmarks) for kind in PER_BENCHMARK}
        for benchmark in analysis.benchmarks:
            for kind, draw in PER_BENCHMARK.items():
                if drawn := draw(analysis, benchmark):
                    figures[names[kind][benchmark]] = drawn
        for name, draw in PER_REPORT.items():
            if drawn := draw(analysis):
                figures[name] = drawn
        for figure, _ in figures.values():
            settle(figure)
    return figures
