"""Every seed's score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.report.analysis import Analysis
from eval.report.figures.style import (
    AVERAGE_COLOUR,
    GREY,
    SMALL,
    family_styles,
    filled,
    in_two_lines,
    panels,
    text_width,
)
from eval.report.names import family_label
from eval.significance.axes import Benchmark

MAX_COLUMNS = 4
TITLE = 10.0  # points
PANELS_IN, GAP_IN = 5.2, 0.15


def draw_seeds(analysis: Analysis, benchmark: Benchmark) -> tuple[Figure, str]:
    """Every seed as a dot, one panel per family; panels share a scale but not its ends."""
    scores = analysis.runs[analysis.runs.benchmark == benchmark]
    families = [family for family in analysis.families if family in set(scores.family)]
    variants = analysis.variants
    titles = [filled(family_label(family), 20) for family in families]
    figure, drawn = panels(len(families), 1.2 + 0.3 * len(variants), columns=_columns(titles), sharey=True)
    styles = family_styles(families)
    chance = analysis.outcome(benchmark).chance
    limits = _limits([np.asarray(scores[scores.family == family].score) for family in families])
    for axes, family, title, (low, high) in zip(drawn, families, titles, limits, strict=True):
        for place, variant in enumerate(variants):
            chosen = scores[(scores.family == family) & (scores.variant == variant)].sort_values("seed")
            _dots(axes, np.asarray(chosen.score), place, styles[family][0], variant == analysis.baseline)
        if chance is not None and low <= chance <= high:
            axes.axvline(chance, color=GREY, lw=0.9, ls=":", zorder=1)
        axes.set_xlim(low, high)
        axes.locator_params(axis="x", nbins=4 if len(families) > 2 else 6)
        axes.set_title(title)
        axes.grid(axis="y", color="#e6e6e6", lw=0.6)
        axes.set_axisbelow(True)
    figure.supxlabel(f"score on {benchmark} (percent)", fontsize=9.5)
    drawn[0].set_yticks(range(len(variants)), [in_two_lines(str(name)) for name in variants])
    drawn[0].set_ylim(len(variants) - 0.5, -0.5)
    alt = (
        f"Dot plot, {benchmark}: the score of every seed in percent, one row per {analysis.noun}, one panel "
        f"per family ({', '.join(map(family_label, families))}); bars are means, the dashed line is the "
        f"mean of {analysis.baseline}"
    )
    return figure, alt


def _columns(titles: Sequence[str]) -> int:
    """As many panels in a line as there is room for their titles."""
    widest = max(text_width(title, TITLE) for title in titles) + GAP_IN
    return max(1, min(len(titles), MAX_COLUMNS, int(PANELS_IN / widest)))


def _dots(axes: Axes, values: np.ndarray, place: int, colour: str, is_baseline: bool) -> None:
    if not len(values):
        axes.text(0.02, place, "no run", transform=axes.get_yaxis_transform(), fontsize=SMALL,
                  color=GREY, ha="left", va="center")  # fmt: skip
        return
    # Spread by seed order, so that equal scores stay visible; never at random, so that files repeat.
    spread = np.linspace(-0.2, 0.2, len(values)) if len(values) > 1 else np.zeros(1)
    axes.plot(values, place + spread, "o", color=colour, ms=4.5, alpha=0.75, mew=0, zorder=3)
    axes.plot([values.mean()] * 2, [place - 0.34, place + 0.34], color=AVERAGE_COLOUR, lw=1.8, zorder=4)
    if is_baseline:
        axes.axvline(values.mean(), color=GREY, lw=0.9, ls="--", zorder=1)


def _limits(scores: list[np.ndarray]) -> list[tuple[float, float]]:
    """Ends of each panel's axis: of one span, so that spreads compare, around each family's own scores."""
    reach = 0.55 * max(*(float(np.ptp(values)) for values in scores), 0.5)
    middles = [float(values.min() + values.max()) / 2 for values in scores]
    return [(middle - reach, middle + reach) for middle in middles]
