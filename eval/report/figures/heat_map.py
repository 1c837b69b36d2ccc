"""Where the differences are: phenomena or tasks against variants."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from base.wording import first_few
from eval.report.analysis import Analysis
from eval.report.document.markdown import signed, unit_name
from eval.report.document.names import family_label
from eval.report.figures.crowd import others_in_drawn_order
from eval.report.figures.style import (
    BLUE,
    SMALL,
    VERMILION,
    WIDTH_IN,
    Panel,
    ReportFigure,
    filled,
    text_width,
)
from eval.significance.axes import Benchmark, Level
from eval.significance.comparison import Comparison

# Vermilion to blue through white; few enough steps to be drawn as shapes, not as an embedded picture.
COLOURS = LinearSegmentedColormap.from_list("worse-better", [VERMILION, "#ffffff", BLUE], N=41)
UNKNOWN = "#d0d0d0"
CELL_HEIGHT_IN, WIDEST_CELL_IN, GAP_IN = 0.26, 0.95, 0.1
BELOW_IN = 0.95  # colour scale, its label and the key
NARROWEST_IN = 4.6
MOST_NUMBERS = 1000
"""Cells up to which numbers stand in them; those of more are in tables/phenomena.csv."""


@dataclass(frozen=True)
class _Grid:
    """Cells to draw, by row and column; a part that was not compared for a variant has no cell."""

    rows: Sequence[str]
    columns: Sequence[str]
    cells: Mapping[tuple[int, int], Comparison]

    @property
    def is_upright(self) -> bool:
        """Whether the names of columns are too long to stand beside each other."""
        return max(map(text_width, self.columns)) > self.cell_in - 0.06

    @property
    def left_in(self) -> float:
        """Inches that the names of rows take."""
        return max(map(text_width, self.rows)) + 2 * GAP_IN

    @property
    def top_in(self) -> float:
        """Inches that the names of columns take."""
        return (max(map(text_width, self.columns)) if self.is_upright else 0.12) + 2 * GAP_IN

    @property
    def cell_in(self) -> float:
        """Width of a cell in inches."""
        narrowest = max(text_width(_value(c), SMALL - 0.5) * 1.15 for c in self.cells.values()) + 0.1
        return min(max((WIDTH_IN - self.left_in - GAP_IN) / len(self.columns), narrowest), WIDEST_CELL_IN)


@dataclass(frozen=True)
class _Map:
    """What is drawn of one benchmark."""

    grid: _Grid
    norm: Normalize
    is_capped: bool
    """Whether cells exceed the colour scale."""
    said: str
    """What the numbers are."""
    level: float
    """Below which a corrected p is framed."""


def draw_heat_map(analysis: Analysis, benchmark: Benchmark) -> tuple[Figure, str] | None:
    """Difference to the baseline in every part of a benchmark; nothing for fewer than two parts."""
    found = _find(analysis, benchmark)
    return None if found is None else (_draw(found), _alt(analysis, benchmark, found))


def heat_map_panel(analysis: Analysis, benchmark: Benchmark) -> Panel | None:
    """Return the same for axes that are given; the colour scale takes its place from them."""
    found = _find(analysis, benchmark)
    if found is None:
        return None

    def draw(axes: Axes) -> None:
        axes.set_facecolor(UNKNOWN)
        _fill(axes, found)
        bar = axes.figure.colorbar(
            ScalarMappable(found.norm, COLOURS), ax=axes, orientation="horizontal", pad=0.04, aspect=40,
            extend="both" if found.is_capped else "neither",
        )  # fmt: skip
        bar.ax.locator_params(axis="x", nbins=6)
        bar.ax.set_xlabel(f"{filled(found.said, 60)}\n{_key(found)}", fontsize=SMALL)

    return Panel(draw, (), found.grid.top_in + CELL_HEIGHT_IN * len(found.grid.rows) + BELOW_IN)


def _find(analysis: Analysis, benchmark: Benchmark) -> _Map | None:
    scope = analysis.scopes(benchmark)[0]
    chosen = {
        (c.part, c.contrast.plus[0]): c
        for c in analysis.parts
        if c.benchmark == benchmark and c.family == scope and c.part is not None
    }
    parts = list(dict.fromkeys(part for part, _ in chosen))
    shown = {variant for _, variant in chosen}
    variants = [name for name in others_in_drawn_order(analysis) if name in shown]
    if len(parts) < 2 or not variants:
        return None
    limit, is_capped = _colour_limit(list(chosen.values()))
    return _Map(
        grid=_grid(chosen, parts, variants),
        norm=Normalize(-limit, limit),
        is_capped=is_capped,
        said=_said(analysis, next(iter(chosen.values()))),
        level=analysis.inference.level,
    )


def _said(analysis: Analysis, found: Comparison) -> str:
    """Say what the numbers are."""
    unit = "percentage points" if found.outcome.is_percentage else unit_name(found.unit)
    unit = "percent" if found.is_relative else unit
    return f"difference to {analysis.baseline}" + (f" ({unit})" if unit else "")


def _grid(chosen: Mapping[tuple[str, Level], Comparison], parts: list[str], variants: list[Level]) -> _Grid:
    """Lay out the longer list down the page, so that a narrow screen shows whole rows."""
    names = list(map(str, variants))
    if len(parts) >= len(variants):
        places = {(parts.index(p), variants.index(v)): c for (p, v), c in chosen.items()}
        return _Grid(parts, names, places)
    places = {(variants.index(v), parts.index(p)): c for (p, v), c in chosen.items()}
    return _Grid(names, parts, places)


def _colour_limit(comparisons: Sequence[Comparison]) -> tuple[float, bool]:
    """Largest difference of the colour scale, and whether cells exceed it: one must not bleach all others."""
    sizes = [abs(c.estimate) for c in comparisons if c.estimate is not None and c.p is not None]
    if not sizes:
        return 1.0, False
    limit = max(min(max(sizes), 4 * float(np.median(sizes))), 10.0 ** -_digits(comparisons[0]))
    return limit, max(sizes) > limit


def _draw(found: _Map) -> Figure:
    grid = found.grid
    inner_width, inner_height = grid.cell_in * len(grid.columns), CELL_HEIGHT_IN * len(grid.rows)
    width = max(grid.left_in + inner_width + GAP_IN, NARROWEST_IN)
    height = grid.top_in + inner_height + BELOW_IN
    figure = ReportFigure(figsize=(width, height))
    place = (grid.left_in / width, BELOW_IN / height, inner_width / width, inner_height / height)
    _fill(figure.add_axes(place, facecolor=UNKNOWN), found)
    _scale(figure, found)
    return figure


def _fill(axes: Axes, found: _Map) -> None:
    """Draw the cells and the names of rows and columns."""
    grid = found.grid
    _cells(axes, grid, found.norm, found.level)
    axes.set_xlim(0, len(grid.columns))
    axes.set_ylim(len(grid.rows), 0)
    axes.xaxis.tick_top()
    turned = 90 if grid.is_upright else 0
    axes.set_xticks(np.arange(len(grid.columns)) + 0.5, grid.columns, rotation=turned)
    axes.set_yticks(np.arange(len(grid.rows)) + 0.5, grid.rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _cells(axes: Axes, grid: _Grid, norm: Normalize, level: float) -> None:
    """Draw the colours, frames around what is shown, and numbers where they are not too many."""
    values = np.full((len(grid.rows), len(grid.columns)), np.nan)
    for place, comparison in grid.cells.items():
        if comparison.p is not None and comparison.estimate is not None:
            values[place] = comparison.estimate
    axes.pcolormesh(np.ma.masked_invalid(values), cmap=COLOURS, norm=norm, edgecolors="white", lw=0.8)
    shown = [place for place, c in grid.cells.items() if c.p_bh is not None and c.p_bh < level]
    frames = [_frame(row, column) for row, column in shown]
    axes.add_collection(PolyCollection(frames, facecolors="none", edgecolors="black", lw=1.3))
    if len(grid.cells) <= MOST_NUMBERS:
        _numbers(axes, grid, norm, values, set(shown))


def _frame(row: int, column: int) -> list[tuple[float, float]]:
    left, right, top, bottom = column + 0.04, column + 0.96, row + 0.06, row + 0.94
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _numbers(
    axes: Axes, grid: _Grid, norm: Normalize, values: np.ndarray, shown: Collection[tuple[int, int]]
) -> None:
    """Write each difference into its cell."""
    for (row, column), comparison in grid.cells.items():
        red, green, blue, _ = (
            COLOURS(norm(values[row, column])) if np.isfinite(values[row, column]) else (1,) * 4
        )
        is_dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.45
        axes.text(
            column + 0.5, row + 0.53, _value(comparison), ha="center", va="center", fontsize=SMALL - 0.5,
            color="white" if is_dark else "black",
            fontweight="bold" if (row, column) in shown else "normal",
        )  # fmt: skip


def _digits(comparison: Comparison) -> int:
    return 1 if comparison.outcome.is_percentage else comparison.digits


def _value(comparison: Comparison) -> str:
    return signed(comparison.estimate, _digits(comparison))


def _scale(figure: Figure, found: _Map) -> None:
    """Draw the colour scale and the key below the map."""
    width, height = figure.get_size_inches()
    length = min(3.2, width - 1)
    bar = figure.add_axes(((width - length) / 2 / width, 0.72 / height, length / width, 0.11 / height))
    figure.colorbar(
        ScalarMappable(found.norm, COLOURS), cax=bar, orientation="horizontal",
        extend="both" if found.is_capped else "neither",
    )  # fmt: skip
    bar.locator_params(axis="x", nbins=6)
    bar.set_xlabel(filled(found.said, 60), labelpad=2)
    figure.text(
        0.5, 0.08 / height, _key(found),
        ha="center", va="bottom", fontsize=SMALL,
    )  # fmt: skip


def _key(found: _Map) -> str:
    return f"framed: corrected p < {found.level:.2g} before shrinking; grey: not estimable"


def _alt(analysis: Analysis, benchmark: Benchmark, found: _Map) -> str:
    cells = list(found.grid.cells.values())
    shown = [
        f"{c.contrast.plus[0]} on {c.part} {_value(c)}"
        for c in cells
        if c.estimate is not None and c.p_bh is not None and c.p_bh < found.level
    ]
    count = f"{len(shown)} of {len(cells)} are framed" + (f": {first_few(shown, 8, '; ')}" if shown else "")
    return (
        f"Heat map, {benchmark}: {found.said} in each part of the benchmark, one value per part and "
        f"{analysis.noun}, {family_label(cells[0].family)}; framed where the corrected p of the difference "
        f"itself is below {found.level:.2g}, grey where not estimable; {count}"
    )
