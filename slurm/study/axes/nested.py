"""Nested values, by dotted names: ``optim.learning_rate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def put(name: str, value: Any) -> dict[str, Any]:
    """Return nested values that hold one value."""
    for key in reversed(name.split(".")):
        value = {key: value}
    return value


def find(values: Any, name: str) -> Any:
    """Return what has a dotted name; None where there is nothing."""
    for key in name.split("."):
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def has(values: Any, name: str) -> bool:
    """Whether something has a dotted name, if only None."""
    section, _, key = name.rpartition(".")
    inside = find(values, section) if section else values
    return isinstance(inside, Mapping) and key in inside


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of all that is no section, in the order in which it stands."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def settings(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the field that each leaf of a configuration sets, and the leaf itself.

    They are two under ``variants``: ``variants.kan.optim.learning_rate`` sets ``optim.learning_rate``.
    """
    for leaf in leaves(values):
        parts = leaf.split(".")
        yield ".".join(parts[2:] if parts[0] == "variants" else parts), leaf
