"""Every figure of a look inside."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib

from eval.inspection.figures.edges import draw_atlas, draw_components
from eval.inspection.figures.functions import draw_functions
from eval.inspection.figures.parameters import draw_parameters
from eval.inspection.figures.pruning import draw_pruning
from eval.inspection.figures.stability import draw_stability
from eval.inspection.figures.strip import by_arm, draw_strip
from eval.report.document.document import Drawing
from eval.report.document.names import file_name
from eval.report.figures.style import STYLE, settle
from eval.results.inspection import RunInspection


def draw_all(runs: Sequence[RunInspection]) -> dict[str, Drawing]:
    """Draw what these runs have; by name a figure and its alt text."""
    drawings = {
        "functions": draw_functions(runs),
        "components": draw_components(runs),
        "pruning": draw_pruning(runs),
        "stability": draw_stability(runs),
    }
    for name, arm in by_arm(runs):
        drawings[file_name("parameters", name)] = draw_parameters(runs, arm)
        drawings[file_name("atlas", name)] = draw_atlas(runs, arm)
        drawings[file_name("strip", name)] = draw_strip(runs, arm)
    shown = {name: drawing for name, drawing in drawings.items() if drawing is not None}
    with matplotlib.rc_context(STYLE):
        for figure, _ in shown.values():
            settle(figure)  # once, whatever files are made of it
    return shown
