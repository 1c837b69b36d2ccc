"""Every figure of a look inside."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from eval.inspection.figures.edges import draw_atlas, draw_components
from eval.inspection.figures.functions import draw_functions
from eval.inspection.figures.parameters import draw_parameters
from eval.inspection.figures.pruning import draw_pruning
from eval.inspection.figures.stability import draw_stability
from eval.inspection.figures.strip import by_arm, draw_strip
from eval.report.document.names import file_name
from eval.results.inspection import RunInspection


def draw_all(runs: Sequence[RunInspection]) -> dict[str, tuple[Figure, str]]:
    """Draw what these runs have; by name a figure and its alt text."""
    found = {
        "functions": draw_functions(runs),
        "components": draw_components(runs),
        "pruning": draw_pruning(runs),
        "stability": draw_stability(runs),
    }
    for name, arm in by_arm(runs):
        found[file_name("parameters", name)] = draw_parameters(runs, arm)
        found[file_name("atlas", name)] = draw_atlas(runs, arm)
        found[file_name("strip", name)] = draw_strip(runs, arm)
    return {name: drawn for name, drawn in found.items() if drawn is not None}
