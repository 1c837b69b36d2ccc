"""Where the differences are: phenomena or tasks against variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from report.analysis import Analysis
from report.document.markdown import signed, unit_name
from report.document.names import family_label
from report.figures.crowd import others_in_drawn_order
from report.figures.style import BLUE, SMALL, VERMILION, WIDTH_IN, Panel, filled, new_figure, text_width
from report.significance.comparison import Comparison

# Vermilion to blue through white; few enough steps to be drawn as shapes, not as an embedded picture.
COLOURS = LinearSegmentedColormap.from_list("worse-better", [VERMILION, "#ffffff", BLUE], N=41)
UNKNOWN = "#d0d0d0"
CELL_HEIGHT_IN, WIDEST_CELL_IN, GAP_IN = 0.26, 0.95, 0.1
BELOW_IN = 0.95  # colour scale and its label
NARROWEST_IN = 4.6
NUMBER = SMALL - 0.5  # points
MOST_NUMBERS = 1000
"""Cells up to which numbers stand in them; those of more are in tables/phenomena.csv."""


@dataclass(frozen=True)
class _Grid:
    """Cells to draw; a part that was not compared for a variant has none."""

    rows: Sequence[str]
    columns: Sequence[str]
    cells: Mapping[tuple[int, int], Comparison]
    """By row and column."""
    label: str
    """What the numbers are."""

    @property
    def left_in(self) -> float:
        """Inches that the names of rows take."""
        return max(map(text_width, self.rows)) + 3 * GAP_IN

    @property
    def cell_in(self) -> float:
        """Width of a cell in inches."""
        narrowest = max(text_width(_value(c), NUMBER) * 1.15 for c in self.cells.values()) + 0.1
        return min(max((WIDTH_IN - self.left_in - GAP_IN) / len(self.columns), narrowest), WIDEST_CELL_IN)

    @property
    def is_upright(self) -> bool:
        """Whether the names of columns are too long to stand beside each other."""
        return max(map(text_width, self.columns)) > self.cell_in - 0.06

    @property
    def size_in(self) -> tuple[float, float]:
        """Width and height of a figure in inches."""
        top = (max(map(text_width, self.columns)) if self.is_upright else 0.12) + 3 * GAP_IN
        width = self.left_in + self.cell_in * len(self.columns) + 2 * GAP_IN
        return max(width, NARROWEST_IN), top + CELL_HEIGHT_IN * len(self.rows) + BELOW_IN

    @property
    def values(self) -> np.ndarray:
        """Estimates by row and column; nan without one."""
        values = np.full((len(self.rows), len(self.columns)), np.nan)
        for place, comparison in self.cells.items():
            values[place] = np.nan if comparison.estimate is None else comparison.estimate
        return values


def draw_heat_map(analysis: Analysis, comparisons: Sequence[Comparison]) -> tuple[Figure, str] | None:
    """Draw the difference to the baseline in every part of a benchmark; nothing for fewer than two parts."""
    grid = _grid(analysis, comparisons)
    if grid is None:
        return None
    width, height = grid.size_in
    figure = new_figure(height, width)
    _draw(figure.subplots(), grid)
    first = comparisons[0]
    return figure, (
        f"Heat map, {first.benchmark}: {grid.label} in each of {len({c.part for c in comparisons})} parts, "
        f"a value for each {analysis.noun}, {family_label(first.family)}; grey without scores"
    )


def heat_map_panel(analysis: Analysis, comparisons: Sequence[Comparison]) -> Panel | None:
    """Return the same for axes that are given; the colour scale takes its place from them."""
    grid = _grid(analysis, comparisons)
    return None if grid is None else Panel(lambda axes: _draw(axes, grid), (), grid.size_in[1])


def _grid(analysis: Analysis, comparisons: Sequence[Comparison]) -> _Grid | None:
    """Lay out the longer list down the page, so that a narrow screen shows whole rows."""
    parts = list(dict.fromkeys(str(c.part) for c in comparisons))
    compared = {c.contrast.plus[0] for c in comparisons}
    variants = [name for name in others_in_drawn_order(analysis) if name in compared]
    if len(parts) < 2 or not variants:
        return None
    first, names = comparisons[0], list(map(str, variants))
    unit = {"percent": "percentage points"}.get(first.unit or "", unit_name(first.unit))
    label = f"difference to {analysis.baseline}" + (f" ({unit})" if unit else "")
    cells = {(parts.index(str(c.part)), variants.index(c.contrast.plus[0])): c for c in comparisons}
    if len(parts) >= len(variants):
        return _Grid(parts, names, cells, label)
    return _Grid(names, parts, {(column, row): c for (row, column), c in cells.items()}, label)


def _draw(axes: Axes, grid: _Grid) -> None:
    """Draw cells, names of rows and columns, and the colour scale below."""
    values, (limit, is_capped) = grid.values, _colour_limit(grid)
    norm = Normalize(-limit, limit)
    axes.set_facecolor(UNKNOWN)
    axes.pcolormesh(np.ma.masked_invalid(values), cmap=COLOURS, norm=norm, edgecolors="white", lw=0.8)
    if len(grid.cells) <= MOST_NUMBERS:
        _numbers(axes, grid, norm, values)
    axes.set_xlim(0, len(grid.columns))
    axes.set_ylim(len(grid.rows), 0)
    axes.xaxis.tick_top()
    axes.set_xticks(np.arange(len(grid.columns)) + 0.5, grid.columns, rotation=90 if grid.is_upright else 0)
    axes.set_yticks(np.arange(len(grid.rows)) + 0.5, grid.rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = axes.figure.colorbar(
        ScalarMappable(norm, COLOURS), ax=axes, orientation="horizontal", pad=0.04,
        fraction=0.11 / grid.size_in[1], aspect=30, extend="both" if is_capped else "neither",
    )  # fmt: skip
    bar.ax.locator_params(axis="x", nbins=6)
    bar.ax.set_xlabel(filled(f"{grid.label}; grey: no scores", 60), fontsize=SMALL)


def _colour_limit(grid: _Grid) -> tuple[float, bool]:
    """Largest difference of the colour scale, and whether cells exceed it: one must not bleach all others."""
    sizes = np.abs(grid.values[np.isfinite(grid.values)])
    if not len(sizes):
        return 1.0, False
    smallest = 10.0 ** -_digits(next(iter(grid.cells.values())))
    limit = max(min(float(sizes.max()), 4 * float(np.median(sizes))), smallest)
    return limit, float(sizes.max()) > limit


def _numbers(axes: Axes, grid: _Grid, norm: Normalize, values: np.ndarray) -> None:
    """Write each difference into its cell."""
    for (row, column), comparison in grid.cells.items():
        is_known = np.isfinite(values[row, column])
        red, green, blue, _ = COLOURS(norm(values[row, column])) if is_known else (1,) * 4
        colour = "white" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.45 else "black"
        place = column + 0.5, row + 0.53
        axes.text(*place, _value(comparison), ha="center", va="center", fontsize=NUMBER, color=colour)


def _digits(comparison: Comparison) -> int:
    return 1 if comparison.metric.is_percentage else comparison.digits


def _value(comparison: Comparison) -> str:
    return signed(comparison.estimate, _digits(comparison))
