"""Settings as keywords: the flags of the commands, nested or with dots."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from base.errors import UsageError, shown
from base.sections import FieldPath, Section, Typed, leaf_fields


def typed_values(kind: type[Section], values: Mapping[str, Any]) -> Typed:
    """Find the field of each setting, for whoever takes what a command line gives.

    Args:
        kind: The model whose fields they are.
        values: By name as the flags have it, with underscores: ``ffn``, ``optim.max_steps`` or ``optim`` with
            a mapping. Nothing is checked yet but the names.

    Raises:
        UsageError: For an unknown name, with the closest match, or one that is given twice.
    """
    places = {".".join(path): path for path, _ in leaf_fields(kind)}
    places |= {_key(name): path for path, name in kind.short_names.items()}
    found: dict[FieldPath, Any] = {}
    names: dict[FieldPath, str] = {}
    for name, value in _flat(values, places):
        path = places[_key(name)]
        if path in found:
            raise UsageError(f"{names[path]} and {name} are the same setting; give it once")
        found[path], names[path] = _plain(value), name
    return Typed(found, names)


def _key(name: str) -> str:
    return name.replace("-", "_")


def _flat(
    values: Mapping[str, Any], places: Mapping[str, FieldPath], section: str = ""
) -> Iterator[tuple[str, Any]]:
    for given, value in values.items():
        name = f"{section}{given}"
        if _key(name) in places:
            yield name, value
        elif not any(place.startswith(f"{_key(name)}.") for place in places):
            raise _unknown(name, places)
        elif isinstance(value, Mapping):
            yield from _flat(value, places, f"{name}.")
        else:
            raise UsageError(f"{name} is a section: give a mapping of its settings, not {shown(value)}")


def _unknown(name: str, places: Mapping[str, FieldPath]) -> UsageError:
    last = _key(name).rpartition(".")[2]
    same = [place for place in places if place.rpartition(".")[2] == last]
    known = [*places, *(place.partition(".")[0] for place in places)]
    close = same or difflib.get_close_matches(_key(name), known, n=1)
    hint = (
        f"did you mean {close[0]}?" if close else "the settings are the flags of the command, see its --help"
    )
    return UsageError(f"unknown setting {shown(name)}, {hint}")


def _plain(value: Any) -> Any:
    """Return a value as a YAML file would have it: no path, no number of NumPy."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value
