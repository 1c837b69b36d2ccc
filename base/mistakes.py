"""What pydantic finds wrong with a configuration, told in one plain line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError

from base.errors import LONGEST_SHOWN, UsageError, shown, unknown_name
from base.flags import FieldPath, fields_of, is_section, members

SENTENCES = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dataclass_type": "must be a mapping of keys to values",
    "dict_type": "must be a mapping of names to values",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a smaller whole number",
    "int_type": "must be a whole number",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list, such as [a, b]",
    "missing": "is missing",
    "model_type": "must be a mapping of keys to values",
    "path_type": "must be a path",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_short": "must have {min_length} characters or more",
    "string_type": "must be text",
    "too_short": "must have {min_length} or more values",
    "tuple_type": "must be a list, such as [a, b]",
}
"""What each kind of pydantic's errors says of a value; braces hold what the error itself says."""


@dataclass(frozen=True)
class Place:
    """Where in a configuration a value is.

    Args:
        field: The sections and the field that hold it.
        shown: The same as a reader sees it, with places in a list and names in a mapping.
        kinds: The types that it may have.
    """

    field: FieldPath
    shown: str
    kinds: Sequence[Any]

    @property
    def choices(self) -> list[Any]:
        """The words that it may be, where it is one of some."""
        return [word for kind in self.kinds if get_origin(kind) is Literal for word in get_args(kind)]

    @property
    def section(self) -> type | None:
        """The section that it is."""
        return next((kind for kind in self.kinds if is_section(kind)), None)


def explain(
    error: ValidationError, model: type, source: str, typed: Mapping[FieldPath, str] | None = None
) -> UsageError:
    """Tell the first mistake in one line: where, which key, what is wrong, the closest match.

    Args:
        error: All that pydantic found.
        model: What the values are for.
        source: The file that they are from.
        typed: The flags of the fields that were given on the command line.
    """
    errors: list[Any] = error.errors()
    # A misspelt key is also a missing one, and its own complaint comes last.
    first = min(errors, key=lambda each: each["type"] != "extra_forbidden")
    place = locate(model, first["loc"])
    if first["type"] == "extra_forbidden":
        *outer, key = first["loc"]
        known = list(fields_of(locate(model, outer).section or model))
        close = difflib.get_close_matches(str(key), known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
        return UsageError(f"{_join(source, '.'.join(map(str, first['loc'])))}unknown key, {hint}")
    flag = (typed or {}).get(place.field)
    if first["type"] == "value_error":
        message = first["msg"].removeprefix("Value error, ")
        is_typed = any(given[: len(place.field)] == place.field for given in typed or {})
        if place.section and is_typed:  # a rule over several fields, which names them itself
            return UsageError(message)
        return UsageError(f"{f'{flag}: ' if flag else _join(source, place.shown)}{message}")
    if first["type"] == "literal_error" and len(errors) == 1:
        told = unknown_name(f"value of {flag or place.shown}:", first["input"], place.choices)
        return UsageError(f"{'' if flag else _join(source)}{told}")
    # What may have one of several types is wrong in several ways.
    same = [each for each in errors if locate(model, each["loc"]).field == place.field]
    ways = list(dict.fromkeys(_sentence(each, locate(model, each["loc"])) for each in same))
    told = " or ".join([ways[0], *(way.removeprefix("must be ") for way in ways[1:])])
    return UsageError(
        f"{f'{flag}: ' if flag else _join(source, place.shown)}{told}{_shown_value(first, flag)}"
    )


def locate(model: type, location: Sequence[str | int]) -> Place:
    """Find the place that pydantic means; it also names which of several types it tried."""
    kinds: list[Any] = [model]
    field: list[str] = []
    shown: list[str] = []
    in_sections = True
    for part in location:
        section = next((kind for kind in kinds if is_section(kind) and part in fields_of(kind)), None)
        if section is not None:
            kinds = members(fields_of(section)[str(part)])
            field += [str(part)] if in_sections else []
        elif isinstance(part, int) or any(get_origin(kind) is dict for kind in kinds):
            in_sections = False
            kinds = [inner for kind in kinds for each in get_args(kind) for inner in members(each)]
        else:
            continue
        shown.append(str(part))
    return Place(tuple(field), ".".join(shown), kinds)


def _sentence(error: Any, place: Place) -> str:
    if error["type"] == "literal_error":
        return f"must be {' or '.join(map(str, place.choices))}"
    if error["type"] == "value_error":
        return error["msg"].removeprefix("Value error, ")
    said = {
        name: f"{each:g}" if isinstance(each, float) else each for name, each in error.get("ctx", {}).items()
    }
    return SENTENCES.get(error["type"], "is not allowed").format_map(said)


def _shown_value(error: Any, flag: str | None) -> str:
    value = error["input"]
    if error["type"] == "missing" or not isinstance(value, str | int | float | bool | None):
        return ""
    if value is None:
        return " (is null)"
    return f" (is {str(value)[:LONGEST_SHOWN] if flag else shown(value)})"


def _join(*parts: str) -> str:
    """What stands before a message: the file and the key, each where there is one."""
    return "".join(f"{part}: " for part in parts if part)
