"""Grids of a tuning: their points, the best of them, and what lies beyond their ends.

A grid gives each field its values, the numbers in rising order; a point is one value of each field, and the
points of a grid are the product, the last field varying fastest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

Value = bool | int | float | str
Point = dict[str, Value]
Grid = Mapping[str, Sequence[Value]]
Side = tuple[str, bool]
"""A field, and whether it is its upper end that is meant."""

DIGITS = 4
"""Significant digits of a value beyond the grid: 0.003 and not 0.0030000000000000005."""


def is_number(value: Value) -> bool:
    """Whether a value is one of which there are greater and smaller ones."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_positive(value: Value) -> bool:
    """Whether a value has a logarithm."""
    return is_number(value) and float(value) > 0


def points(grid: Grid) -> list[Point]:
    """Return all points of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def best(grid: Grid, losses: Sequence[tuple[Point, float]]) -> tuple[Point, float]:
    """Return the point of the lowest loss, with it; of equal ones the first in the grid, so the lower rate.

    Args:
        grid: What the points are of.
        losses: Mean loss of points; infinite where a run diverged. At least one.
    """
    order = points(grid)
    return min(losses, key=lambda pair: (pair[1], order.index(pair[0])))


def edges(point: Point, losses: Sequence[tuple[Point, float]]) -> tuple[str, ...]:
    """Name the fields of which a point has the smallest or greatest number: a better one may lie beyond.

    A field's values are compared at the point's values of the others. Those that diverged are beyond the
    edge, and words have none.

    Args:
        point: The best one.
        losses: Mean loss of all points that were tried; infinite where a run diverged.
    """

    def is_edge(field: str) -> bool:
        others = {**point, field: None}
        values = [p[field] for p, loss in losses if math.isfinite(loss) and {**p, field: None} == others]
        is_ordered = bool(values) and all(map(is_number, values))
        return is_ordered and point[field] in (min(values), max(values))

    return tuple(filter(is_edge, point))


def open_sides(grid: Grid, point: Point) -> list[Side]:
    """Name the ends of the grid at which a point lies and behind which there are further values."""
    return [
        (field, is_upper)
        for field, values in grid.items()
        for is_upper in (False, True)
        if point[field] == values[-1 if is_upper else 0] and beyond(values, is_upper) is not None
    ]


def beyond(values: Sequence[Value], is_upper: bool) -> Value | None:
    """Return the value behind an end of a grid: as far from it, as a ratio, as its neighbour is.

    Args:
        values: A field's, in rising order.
        is_upper: Behind the greatest instead of the smallest.

    Returns:
        Rounded to ``DIGITS`` significant digits, and to a whole number where all values are; None where there
        is none, as of words, of zero, or of whole numbers that would be tried twice.
    """
    last, before = (values[-1], values[-2]) if is_upper else (values[0], values[1])
    if not (is_number(last) and is_number(before)) or min(last, before) <= 0:  # type: ignore[type-var]
        return None
    value = float(f"{last * last / before:.{DIGITS}g}")  # type: ignore[operator]
    if all(isinstance(each, int) for each in values):
        value = round(value)
    return value if value > 0 and value not in values else None


def widened(grid: Grid, sides: Iterable[Side]) -> dict[str, tuple[Value, ...]]:
    """Return a grid with one value more behind each of some ends that have one."""
    wider = {field: tuple(values) for field, values in grid.items()}
    for field, is_upper in dict.fromkeys(sides):
        value = beyond(grid[field], is_upper)
        if value is not None:
            wider[field] = (*wider[field], value) if is_upper else (value, *wider[field])
    return wider


def widest(grid: Grid, times: int) -> dict[str, tuple[Value, ...]]:
    """Return a grid that has grown behind every end, so many times."""
    wider = {field: tuple(values) for field, values in grid.items()}
    for _ in range(times):
        wider = widened(wider, itertools.product(wider, (False, True)))
    return wider
