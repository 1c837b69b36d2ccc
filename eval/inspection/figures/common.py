"""What these figures share: order and looks of variants, densities under curves, small axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from eval.inspection.findings import arms
from eval.report.figures.style import GREY, VariantStyle, variant_styles
from eval.results.inspection import RunInspection

DENSITY_SHARE = 0.28
"""Of a panel's height, that the inputs under a curve take."""
TINY = 7


def looks(runs: Sequence[RunInspection]) -> dict[str, VariantStyle]:
    """Give each variant one look in all figures."""
    return variant_styles(list(dict.fromkeys(run.variant for run in runs)))  # type: ignore[bad-return]


def by_arm(runs: Sequence[RunInspection]) -> list[tuple[str, list[RunInspection]]]:
    """Runs by what a reader calls them: the variant, with the family where there are several."""
    grouped = arms(runs)
    several = len({family for family, _ in grouped}) > 1
    return [
        (f"{variant}, {family}" if several else variant, found)
        for (family, variant), found in grouped.items()
    ]


def draw_density(axes: Axes, places: Sequence[float], density: Sequence[float]) -> None:
    """Fill where the inputs lie along the bottom of a panel, without changing its limits."""
    low, high = axes.get_ylim()
    heights = np.asarray(density) / max(max(density), 1e-12) * DENSITY_SHARE * (high - low)
    axes.fill_between(places, low, low + heights, color=GREY, alpha=0.25, lw=0, zorder=0)
    axes.set_ylim(low, high)


def make_small(axes: Axes, ticks: int = 3) -> None:
    """Few ticks with small numbers, for many panels side by side."""
    axes.tick_params(labelsize=TINY, pad=1.5, length=2)
    axes.locator_params(nbins=ticks)


def line(label: str, colour: str, dashes: str = "-", width: float = 1.7) -> Line2D:
    """An entry of a legend."""
    return Line2D([], [], color=colour, ls=dashes, lw=width, label=label)


def mean_and_range(curves: Iterable[Sequence[float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, lowest and highest over runs, point by point; runs of another length are left out."""
    found = [np.asarray(curve, dtype=float) for curve in curves]
    table = np.stack([curve for curve in found if len(curve) == len(found[0])])
    return table.mean(0), table.min(0), table.max(0)
