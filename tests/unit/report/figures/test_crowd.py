"""Figures of more variants than lines can be followed: sorted, and a small panel for each."""

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure

from report.analysis import Analysis
from report.figures.forest import draw_forest
from report.parts import learning_curves
from report.parts.scores import draw_seeds
from report.write import draws
from tests.unit.report.figures.test_figures import BLIMP, NAMES, make_analysis

FAMILIES = ("gpt_neo", "roberta")


@pytest.fixture(scope="module")
def many() -> Analysis:
    return make_analysis(NAMES)


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


def test_many_variants_are_sorted_alike_in_every_figure_that_lists_them(many: Analysis):
    order = by_score(many)
    assert order != list(many.variants)
    assert rows_of(draw_seeds(many)[0]) == order
    forest = draw_forest(many, BLIMP)[0]
    assert rows_of(forest) == [name for name in order if name != "gelu"]
    overall = {c.contrast.compared: c.estimate for c in many.overall(BLIMP)}
    diamonds = [line for line in forest.axes[0].lines if line.get_marker() == "D"]
    points = sorted((line.get_ydata()[0], line.get_xdata()[0]) for line in diamonds)
    assert [x for _, x in points] == pytest.approx([overall[name] for name in order if name != "gelu"])


@pytest.mark.parametrize(("name", "expected"), [("learning-curves", NAMES[1:]), ("gradient-norms", NAMES)])
def test_each_of_many_variants_has_a_panel_in_each_family(many: Analysis, name, expected):
    drawn = draws(many)[name]()
    assert drawn is not None
    titles = panels_by_title(drawn[0])
    assert {name: len(axes) for name, axes in titles.items()} == dict.fromkeys(expected, len(FAMILIES))
    assert "a small panel for each" in drawn[1]


def test_small_panels_show_what_the_curves_say(many: Analysis):
    result = learning_curves.PART.of(many)
    assert result is not None
    drawn = learning_curves.draw_learning_curves(many, result.curves)
    assert drawn is not None
    panels = panels_by_title(drawn[0])
    losses = {
        key: np.mean([[e.loss for e in run.curve] for run in runs], axis=0)
        for key, runs in itertools.groupby(many.facts, lambda run: (run.family, run.variant))
    }
    for place, family in enumerate(FAMILIES):
        for name in ("none", "relu"):
            mean = panels[name][place].lines[-2]  # before the line at zero
            expected = losses[family, name] - losses[family, "gelu"]
            np.testing.assert_allclose(mean.get_ydata(), expected, atol=1e-12)


def test_costs_of_many_variants_stand_in_the_table_alone(many: Analysis):
    assert draws(many)["cost"]() is None
