"""Figures: what they show, and that every text can be read, whatever and however much is compared."""

import io
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from report.analysis import Analysis
from report.document.document import Drawing
from report.figures import style
from report.figures.crowd import is_crowd
from report.figures.forest import draw_forest, draw_forests
from report.inputs.run_facts import Evaluation, RunFacts
from report.inputs.sources import source_of_frame
from report.parts import learning_curves
from report.parts.scores import draw_seeds
from report.significance.axes import Benchmark
from report.write import draw_all, draws
from scores.rows import ROW_COLUMNS
from tests.unit.report.studies import analysed

BLIMP = Benchmark("blimp")
LONG = "efficient-kan-with-grid-{}-and-spline-order-3"
NAMES = ("gelu", *(LONG.format(i) for i in range(6)), "none", "a$b$", "kan", "<b>", "x_y", "swish", "relu")


def held_out_loss(step: int, seed: int) -> float:
    return 3 + 100 / step + 0.01 * seed


def make_analysis(
    variants: Sequence[str] = ("gelu", "kan", "relu", "swish"),
    families: Sequence[str] = ("gpt_neo", "roberta"),
    parts: int = 4,
    has_losses: bool = False,
) -> Analysis:
    """Analysis of made scores whose second variant has a single run in the last family, with run facts."""
    generator = np.random.default_rng(1)
    rows, facts = [], []
    for family, (place, variant) in itertools.product(families, enumerate(variants)):
        single = place == 1 and family == families[-1]
        for seed in range(1, 2 if single else 4):
            run_id = f"{family}/{variant}/seed{seed}"
            shift = generator.normal()
            rows += [
                (run_id, family, variant, seed, "blimp", f"task {i}", "g", "accuracy",
                 60 + shift - place * (i % 3) + generator.normal(), 100, "")
                for i in range(parts)
            ]  # fmt: skip
            if has_losses:
                loss = (2.5 + families.index(family)) * (1 - 0.02 * place) + 0.01 * generator.normal()
                rows.append((run_id, family, variant, seed, "held-out-loss", "validation", "held-out text",
                             "held_out_loss", loss, 0, ""))  # fmt: skip
            facts.append(
                RunFacts(
                    run_id=run_id, family=family, variant=variant, seed=seed,
                    num_parameters=10_000_000 + 300_000 * place, flops_per_token=20_000_000 + place,
                    train_hours=0.4 * (1 + place), eval_loss=held_out_loss(450, seed),
                    curve=tuple(
                        Evaluation(step, held_out_loss(step, seed), 1000 * step, step / 3600)
                        for step in range(50, 500, 50)
                    ),
                    grad_norms=tuple((step, 1.0 + 0.5 * (step % 3)) for step in range(10, 2000, 10)),
                )
            )  # fmt: skip
    table = pd.DataFrame(rows, columns=list(ROW_COLUMNS[:-1]))
    return analysed(replace(source_of_frame(table), facts=tuple(facts)))


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return make_analysis()


@pytest.fixture(scope="module")
def with_losses() -> Analysis:
    return make_analysis(("gelu", "kan", "relu"), parts=17, has_losses=True)


@pytest.fixture(scope="module")
def drawn(with_losses: Analysis) -> dict[str, Drawing]:
    return draw_all(with_losses)


def texts_of(figure: Figure) -> list[Text]:
    """Every text that is drawn; of an axis' labels those between its ends only."""
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    texts += [text for block in figure.subfigs for text in block.texts]
    for axes in figure.axes:
        texts += [*axes.texts, axes.title]
        for axis in (axes.xaxis, axes.yaxis):
            texts += [axis.label, *(label for t in axis._update_ticks() for label in (t.label1, t.label2))]
    return [text for text in texts if text.get_visible() and text.get_text().strip()]


def titles_of(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes]


def boxes_of(figure: Figure):
    """Texts with their bounding boxes in pixels."""
    figure.draw_without_rendering()
    renderer = figure._get_renderer()
    return [(text.get_text(), text.get_window_extent(renderer)) for text in texts_of(figure)]


def assert_nothing_overlaps(figure: Figure) -> None:
    width, height = figure.bbox.width, figure.bbox.height
    boxes = boxes_of(figure)
    for text, box in boxes:
        assert box.x0 >= -0.5, f"{text!r} leaves the figure"
        assert box.y0 >= -0.5, f"{text!r} leaves the figure"
        assert box.x1 <= width + 0.5, f"{text!r} leaves the figure"
        assert box.y1 <= height + 0.5, f"{text!r} leaves the figure"
    for (first, a), (second, b) in itertools.combinations(boxes, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 0.5 or down <= 0.5, f"{first!r} and {second!r} overlap"


def assert_is_readable(analysis: Analysis, drawn: Mapping[str, Drawing]) -> None:
    kinds = {"forest", "seeds", "cost", "learning-curves", "gradient-norms"}
    assert set(drawn) == (kinds - {"cost"} if is_crowd(analysis) else kinds)
    for figure, alt in drawn.values():
        assert_nothing_overlaps(figure)
        assert len(alt) > 60
    shown = {text.get_text().replace("\n", "") for text in texts_of(drawn["forest"][0])}
    assert set(analysis.others) <= shown


@pytest.mark.ci
def test_no_text_overlaps_or_leaves_its_figure(with_losses: Analysis, drawn: Mapping[str, Drawing]):
    assert_is_readable(with_losses, drawn)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variants", "families", "parts"), [(("gelu", "b"), ("f",), 2), (NAMES, ("gpt_neo", "roberta", "t5"), 12)]
)
def test_no_text_overlaps_of_few_and_of_many(variants, families, parts):
    analysis = make_analysis(variants, families, parts, has_losses=len(families) > 1)
    assert_is_readable(analysis, draw_all(analysis))


@pytest.mark.parametrize("most", [7, 15, 35, 55, 80, 5_000])
def test_ticks_of_costs_have_room_however_far_they_reach(most: float):
    with matplotlib.rc_context(style.STYLE):
        figure, grid = style.panels(3, 2.1, columns=3)
        for axes in grid:
            axes.plot([0.33, 0.33 * most], [0, 1])
            axes.set_yticks([])
            style.use_log_scale(axes)
        assert_nothing_overlaps(figure)
        assert len({text for text, _ in boxes_of(figure)}) >= 2


def test_files_repeat_and_depend_on_nothing_drawn_before(analysis: Analysis):
    first, second = (draw_forest(analysis, BLIMP)[0] for _ in range(2))
    # In one order here and in the other there.
    svg, png = style.to_svg(first), style.to_png(first)
    assert style.to_png(second) == png
    assert style.to_svg(second) == svg
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert not re.search(r"<dc:date>|Matplotlib v", svg)
    assert not re.search(r'href="(?!#)', svg)  # nothing but its own parts
    with Image.open(io.BytesIO(png)) as image:
        assert set(image.info) <= {"dpi"}
        assert image.info["dpi"][0] == pytest.approx(200, abs=0.1)
        assert image.width == pytest.approx(200 * first.get_size_inches()[0], abs=1)


@pytest.mark.ci
def test_every_axis_has_a_unit(drawn: Mapping[str, Drawing]):
    units = r"points|percent|%|nats|millions|MFLOP|min\b|training step|L2"
    for name, (figure, _) in drawn.items():
        if name == "seeds":  # in the titles, which leave room for more panels
            assert [title for title in titles_of(figure) if "nats" not in title and "%" not in title] == []
            continue
        shared = f"{figure.get_supxlabel()} {figure.get_supylabel()}"
        for axes in figure.axes:
            if axes.get_xticklabels():
                assert re.search(units, axes.get_xlabel() or figure.get_supxlabel()), name
        assert re.search(units, shared + " ".join(axes.get_xlabel() for axes in figure.axes)), name


@pytest.mark.ci
def test_every_figure_has_a_title_that_says_what_is_found(drawn: Mapping[str, Drawing]):
    values = {"a": 1.0, "b": np.nan, "c": -2.0, "d": None}
    assert style.extremes("ends", values, "+.1f") == "ends -2.0 (c) to +1.0 (a)"
    assert style.extremes("ends", {"a": np.nan}, "+.1f") == ""
    for name, (figure, _) in drawn.items():
        titles = [*titles_of(figure), *(text.get_text() for block in figure.subfigs for text in block.texts)]
        assert re.search(r"none worse|best for|SD of|\d \(\w+", "; ".join(titles)), name
    cost = titles_of(drawn["cost"][0])[0].replace("\n", " ")
    assert cost == "GPT-Neo best for its cost: gelu, kan, relu"  # every dearer variant is better


def test_forest_fills_what_is_shown_to_differ(analysis: Analysis):
    axes = draw_forest(analysis, BLIMP)[0].axes[0]
    points = {round(float(x.get_xdata()[0]), 9): x for x in axes.lines if len(x.get_xdata()) == 1}
    assert (-1.0, 2.0) in [(patch.get_x(), patch.get_width()) for patch in axes.patches]  # the margin
    comparisons = [c for c in analysis.comparisons if c.estimate is not None]
    assert {c.verdict for c in comparisons if c.is_primary} >= {"worse", "undecided"}
    assert {c.is_primary for c in comparisons} == {True, False}
    for c in comparisons:
        point = points[round(c.estimate, 9)]
        assert (point.get_alpha() is not None) != c.is_primary
        is_hollow = point.get_markerfacecolor() == "white"
        assert is_hollow == (c.is_primary and not c.is_different)


def test_forests_of_two_metrics_stand_beside_each_other_in_their_units(with_losses: Analysis):
    figure, alt = draw_forests(with_losses)
    loss, blimp = figure.axes
    assert titles_of(figure)[0] == "held-out loss\n3 better, none worse, 1\nnot estimable"
    assert loss.get_xlabel() == "difference to gelu\n(nats)\n← better"
    assert blimp.get_xlabel().endswith("points)\nbetter →")
    rows = with_losses.source.rows
    means = rows[rows.metric == "held_out_loss"].groupby(["family", "variant"]).score.mean()
    points = [float(line.get_xdata()[0]) for line in loss.lines if len(line.get_xdata()) == 1]
    for family in ("gpt_neo", "roberta"):
        expected = means[family, "kan"] - means[family, "gelu"]
        assert min(abs(point - expected) for point in points) < 1e-9
    assert "held-out loss, blimp: difference of 2 variants to gelu" in alt


def test_variants_look_different_and_long_names_stay_whole():
    styles = style.variant_styles([f"v{i}" for i in range(14)])
    assert len({(s.colour, s.marker, s.hollow) for s in styles.values()}) == 14
    assert len({(s.colour, s.dashes) for s in styles.values()}) == 14
    assert len({s.dashes for s in list(styles.values())[:4]}) == 4  # told apart in grey
    assert len(set(style.family_styles([f"f{i}" for i in range(18)]).values())) == 19  # and the average
    assert style.in_two_lines("fourier-kan grid_size=10 frozen") == "fourier-kan\ngrid_size=10 frozen"
    for name in (LONG.format(1), "x" * 40, "short", "-" * 30):
        assert style.in_two_lines(name).replace("\n", "") == name
        assert style.in_two_lines(name).count("\n") == (len(name) > 18)


def test_thinned_curves_keep_their_mean():
    curve = [(step, float(step % 7)) for step in range(1, 601)]
    thinned = style.thin(curve, 50)
    assert len(thinned) == 50
    np.testing.assert_allclose(np.mean(thinned, axis=0), np.mean(curve, axis=0))
    assert style.thin(curve[:50], 50) == curve[:50]


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
    order = ["gelu", *(name for name in by_score(many) if name != "gelu")]
    assert order == list(many.variants)
    assert rows_of(draw_seeds(many)[0]) == order
    forest = draw_forest(many, BLIMP)[0]
    assert rows_of(forest) == order[1:]
    overall = {c.contrast.compared: c.estimate for c in many.overall(BLIMP)}
    diamonds = [line for line in forest.axes[0].lines if line.get_marker() == "D"]
    points = sorted((line.get_ydata()[0], line.get_xdata()[0]) for line in diamonds)
    assert [x for _, x in points] == pytest.approx([overall[name] for name in order[1:]])


@pytest.mark.parametrize(("name", "expected"), [("learning-curves", NAMES[1:]), ("gradient-norms", NAMES)])
def test_each_of_many_variants_has_a_panel_in_each_family(many: Analysis, name, expected):
    drawn = draws(many)[name]()
    titles = panels_by_title(drawn[0])
    assert {name: len(axes) for name, axes in titles.items()} == dict.fromkeys(expected, len(FAMILIES))
    assert all(a.title.get_window_extent().width <= a.get_window_extent().width for a in drawn[0].axes)
    assert "a small panel for each" in drawn[1]


def test_small_panels_show_what_the_curves_say(many: Analysis):
    result = learning_curves.PART.of(many)
    drawn = learning_curves.draw_learning_curves(many, result.curves)
    titles = panels_by_title(drawn[0])
    arms = itertools.groupby(many.facts, lambda run: (run.family, run.variant))
    losses = {key: np.mean([[e.loss for e in run.curve] for run in runs], axis=0) for key, runs in arms}
    for place, family in enumerate(FAMILIES):
        for name in ("none", "relu"):
            mean = titles[name][place].lines[-2]  # before the line at zero
            expected = losses[family, name] - losses[family, "gelu"]
            np.testing.assert_allclose(mean.get_ydata(), expected, atol=1e-12)


def test_costs_of_many_variants_stand_in_the_table_alone(many: Analysis):
    assert draws(many)["cost"]() is None
