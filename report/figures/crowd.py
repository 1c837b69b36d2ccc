"""Figures of more variants than one pair of axes can hold: sorted by score, a small panel for each."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from report.analysis import Analysis
from report.document.markdown import family_label
from report.figures import style
from report.significance.arms import Key

MOST_TOGETHER = 10
"""Variants whose lines can be followed in one pair of axes."""
COLUMNS = 5
PANEL_IN, TITLE_IN, AROUND_IN = 1.05, 0.42, 0.4
NAME_IN = 0.8
"""Widest name of a panel; a longer one is written smaller."""
ALONE = style.VariantStyle(style.BLUE, "", False, "-")
"""Look of a variant that has its panel to itself."""
BEHIND = {"color": style.GREY, "lw": 0.8, "alpha": 0.7, "zorder": 1}
"""Look of the baseline behind every other variant."""


def is_crowd(analysis: Analysis) -> bool:
    """Whether there are too many variants for one pair of axes: each has its panel, and lists are sorted."""
    return len(analysis.variants) > MOST_TOGETHER


def small_panels(
    analysis: Analysis, arms: Mapping[Key, float], found: tuple[str, str], xlabel: str, ylabel: str
) -> tuple[Figure, dict[Key, Axes]]:
    """Make a figure with a titled panel for each variant of each family; those of a family share both axes.

    Args:
        analysis: Says in which order variants are drawn.
        arms: Family and variant of each panel, with a number of it; families are drawn in this order.
        found: What these numbers are, and their format: a family's title names the least and the greatest.
        xlabel: What stands once below all.
        ylabel: What stands once beside all.
    """
    order = analysis.variants
    shown = {f: [v for v in order if (f, v) in arms] for f in dict.fromkeys(f for f, _ in arms)}
    columns = min(COLUMNS, max(map(len, shown.values())))
    lines = [-(-len(variants) // columns) for variants in shown.values()]
    heights = [TITLE_IN + PANEL_IN * count for count in lines]
    figure = style.new_figure(AROUND_IN + sum(heights))
    blocks = figure.subfigures(len(shown), 1, height_ratios=heights, squeeze=False).ravel()
    panels: dict[Key, Axes] = {}
    for block, (family, variants), count in zip(blocks, shown.items(), lines, strict=True):
        grid = block.subplots(count, columns, squeeze=False, sharex=True, sharey=True).ravel()
        ends = style.extremes(found[0], {variant: arms[family, variant] for variant in variants}, found[1])
        block.suptitle(style.titled(family_label(family), ends, 75), fontsize=10)
        for axes in grid[len(variants) :]:
            axes.remove()
        for place, (axes, variant) in enumerate(zip(grid, variants, strict=False)):
            name = style.in_two_lines(str(variant), 12)
            axes.set_title(
                name, fontsize=min(style.SMALL, style.SMALL * NAME_IN / style.text_width(name)), pad=2
            )
            axes.tick_params(labelsize=style.SMALL - 1.5, labelbottom=place >= len(variants) - columns)
            panels[family, variant] = axes
    figure.supxlabel(xlabel, fontsize=9.5)
    figure.supylabel(ylabel, fontsize=9.5)
    return figure, panels
