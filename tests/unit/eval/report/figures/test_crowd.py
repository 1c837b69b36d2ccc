"""Figures of more variants than lines can be followed: sorted, and a small panel for each."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from eval.report.analysis import Analysis
from eval.report.figures.cost import draw_cost
from eval.report.figures.forest import draw_forest
from eval.report.figures.learning_curves import draw_learning_curves
from eval.report.figures.seeds import draw_seeds
from eval.report.figures.training import draw_gradient_norms
from tests.unit.eval.report.figures.test_figures import BLIMP, NAMES, make_analysis

FAMILIES = ("gpt_neo", "roberta")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return make_analysis(tmp_path_factory.mktemp("scores"), variants=NAMES)


def by_score(analysis: Analysis) -> list[str]:
    """Variants from the highest accuracy to the lowest, over the seeds and families that all have."""
    means = analysis.arms.pivot_table(index="variant", columns="family", values="mean")
    return list(means.mean(axis=1).sort_values(ascending=False).index)


def panels_by_title(figure: Figure) -> dict[str, list]:
    found: dict[str, list] = {}
    for axes in figure.axes:
        found.setdefault(axes.get_title().replace("\n", ""), []).append(axes)
    return found


def rows_of(figure: Figure) -> list[str]:
    return [label.get_text().replace("\n", "") for label in figure.axes[0].get_yticklabels()]


@pytest.mark.ci
def test_many_variants_are_sorted_alike_in_every_figure_that_lists_them(many: Analysis):
    order = by_score(many)
    assert order != list(many.variants)
    assert rows_of(draw_seeds(many)[0]) == order
    forest = draw_forest(many, BLIMP)[0]
    assert rows_of(forest) == [name for name in order if name != "gelu"]
    overall = {c.contrast.compared: c.estimate for c in many.overall(BLIMP)}
    (average,) = {line.get_color() for line in forest.axes[0].lines if line.get_marker() == "D"}
    points = [
        (line.get_ydata()[0], line.get_xdata()[0])
        for line in forest.axes[0].lines
        if line.get_marker() == "D" and line.get_color() == average
    ]
    drawn = [x for _, x in sorted(points)]
    assert drawn == pytest.approx([overall[name] for name in order if name != "gelu"])


@pytest.mark.parametrize(
    ("draw", "expected"), [(draw_learning_curves, NAMES[1:]), (draw_gradient_norms, NAMES)]
)
@pytest.mark.ci
def test_each_of_many_variants_has_a_panel_in_each_family(many: Analysis, draw, expected):
    figure, alt = draw(many)
    found = panels_by_title(figure)
    assert {name: len(axes) for name, axes in found.items()} == dict.fromkeys(expected, len(FAMILIES))
    assert "a small panel for each" in alt


def test_small_panels_show_what_the_curves_say(many: Analysis):
    found = panels_by_title(draw_learning_curves(many)[0])
    for place, family in enumerate(FAMILIES):
        for name in ("none", "relu"):
            points = [x for x in many.curves.points if (x.family, x.variant) == (family, name)]
            line = found[name][place].lines[0]
            np.testing.assert_allclose(line.get_xdata(), [x.tokens / 1e6 for x in points])
            np.testing.assert_allclose(line.get_ydata(), [x.difference for x in points])


def test_hours_are_those_at_the_speed_of_the_fastest_run(tmp_path: Path):
    analysis = make_analysis(tmp_path)
    facts = [
        replace(x, tokens_per_s=1000.0 / (1 + (x.seed == 1)), train_hours=1.0 + (x.seed == 1))
        for x in analysis.facts
    ]
    shared = replace(analysis, source=replace(analysis.source, facts=tuple(facts)))
    figure, _ = draw_cost(shared)
    panels = [axes for axes in figure.axes if "hours" in axes.get_xlabel()]
    hours = [
        float(line.get_xdata()[0]) for line in panels[0].lines if line.get_marker() not in ("None", "", None)
    ]
    assert hours == pytest.approx([1.0] * len(analysis.variants))
