"""Which values a tuning tries next, and which it chooses: rules that know losses and nothing else.

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


def points(grid: Grid) -> list[Point]:
    """Return all points of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def best(grid: Grid, losses: Sequence[tuple[Point, float]]) -> Point:
    """Return the point of the lowest loss; of equal ones the first in the grid, so the lower rate.

    Args:
        grid: What the points are of.
        losses: Mean loss of points; infinite where a run diverged. At least one.
    """
    order = points(grid)
    point, _ = min(losses, key=lambda pair: (pair[1], order.index(pair[0])))
    return point


def edges(point: Point, losses: Sequence[tuple[Point, float]]) -> tuple[str, ...]:
    """Name the fields of which a point has the smallest or greatest number: a better one may lie beyond.

    A field's values are compared at the point's values of the others. Those that diverged are beyond the
    edge, and names have none.

    Args:
        point: The best one.
        losses: Mean loss of all points that were tried; infinite where a run diverged.
    """
    found = []
    for field in point:
        rest = {**point, field: None}
        values = [one[field] for one, loss in losses if math.isfinite(loss) and {**one, field: None} == rest]
        if values and all(map(is_number, values)) and point[field] in (min(values), max(values)):  # type: ignore[type-var]
            found.append(field)
    return tuple(found)


def open_sides(grid: Grid, point: Point) -> list[Side]:
    """Name the ends of the grid at which a point lies and behind which there are further values."""
    ends = [(field, is_upper) for field in grid for is_upper in (False, True)]
    return [
        (field, is_upper)
        for field, is_upper in ends
        if point[field] == grid[field][-1 if is_upper else 0] and beyond(grid[field], is_upper) is not None
    ]


def beyond(values: Sequence[Value], is_upper: bool) -> Value | None:
    """Return the value behind an end of a grid: as far from it, as a ratio, as its neighbour is.

    Args:
        values: A field's, in rising order.
        is_upper: Behind the greatest instead of the smallest.

    Returns:
        Rounded to ``DIGITS`` significant digits, and to a whole number where all values are; None where there
        is none, as of names, of zero, or of whole numbers that would be tried twice.
    """
    last, before = (values[-1], values[-2]) if is_upper else (values[0], values[1])
    if not (is_number(last) and is_number(before)) or min(last, before) <= 0:  # type: ignore[type-var]
        return None
    found = float(f"{last * last / before:.{DIGITS}g}")  # type: ignore[operator]
    if all(isinstance(value, int) for value in values):
        found = round(found)
    return found if found > 0 and found not in values else None


def widened(grid: Grid, sides: Iterable[Side]) -> dict[str, tuple[Value, ...]]:
    """Return a grid with one value more behind each of some ends."""
    wider = {field: tuple(values) for field, values in grid.items()}
    for field, is_upper in dict.fromkeys(sides):
        value = beyond(grid[field], is_upper)
        assert value is not None
        wider[field] = (*wider[field], value) if is_upper else (value, *wider[field])
    return wider


def widest(grid: Grid, times: int) -> dict[str, tuple[Value, ...]]:
    """Return a grid that has grown behind every end, so many times."""
    wider = {field: tuple(values) for field, values in grid.items()}
    for _ in range(times):
        sides = [(field, is_upper) for field in wider for is_upper in (False, True)]
        wider = widened(wider, [side for side in sides if beyond(wider[side[0]], side[1]) is not None])
    return wider


def mean_loss(losses: Sequence[float | None]) -> float:
    """Average the losses of a point's runs; infinite where one of them diverged, which has none."""
    known = [loss for loss in losses if loss is not None]
    return math.fsum(known) / len(known) if len(known) == len(losses) else math.inf
