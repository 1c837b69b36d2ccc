"""Levels of a study's axes beside the variant: what a run at each has in its configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from base.errors import UsageError
from slurm.study.axes.fields import check_field, read_value, write_value
from slurm.study.axes.nested import put
from slurm.study.axes.tokens import read_tokens, write_tokens

SIZE, TOKENS = "size", "tokens"
"""The axes that are no field of a configuration."""


@dataclass(frozen=True)
class Point:
    """A level of an axis.

    Attributes:
        axis: ``size``, ``tokens``, or a field by its dotted name.
        level: Its name, as text.
        values: What it sets in a run's configuration, nested.
        tokens: How many a run trains on, where that is what it says.
    """

    axis: str
    level: str
    values: Mapping[str, Any] = field(default_factory=dict)
    tokens: int | None = None


def size_points(sizes: Mapping[str, Mapping[str, Any]]) -> tuple[Point, ...]:
    """Return the levels of ``sizes``."""
    return tuple(Point(SIZE, name, values) for name, values in sizes.items())


def tokens_points(values: Iterable[Any]) -> tuple[Point, ...]:
    """Return the levels of ``tokens``.

    Raises:
        UsageError: For what is no number of tokens, or one that is named twice.
    """
    numbers = [read_tokens(value) for value in values]
    return _distinct(TOKENS, (Point(TOKENS, write_tokens(number), tokens=number) for number in numbers))


def field_points(name: str, values: Iterable[Any]) -> tuple[Point, ...]:
    """Return the levels of a field.

    Raises:
        UsageError: If it can be no axis, or for a value that does not fit or is named twice.
    """
    check_field(name)
    return _distinct(f"axes.{name}", (field_point(name, value) for value in values))


def field_point(name: str, value: Any) -> Point:
    """Return one level of a field that exists; ``UsageError`` for a value that does not fit."""
    read = read_value(name, value)
    return Point(name, write_value(read), put(name, read))


def canonical_level(axis: str, text: str) -> str:
    """Write a level of an axis as rows do; what is none stays as it is."""
    try:
        if axis == TOKENS:
            return write_tokens(read_tokens(text))
        return text if axis == SIZE else field_point(axis, text).level
    except UsageError:
        return text


def _distinct(place: str, points: Iterable[Point]) -> tuple[Point, ...]:
    found: dict[str, Point] = {}
    for point in points:
        if point.level in found:
            raise UsageError(f"{place}: {point.level} is named twice; name each once")
        found[point.level] = point
    if not found:
        raise UsageError(f"{place} has no levels; name one or more, or leave it out")
    return tuple(found.values())
