"""Sections of a configuration: pydantic models whose fields a YAML file, a flag or a keyword gives.

What pydantic finds wrong with a value is told in one plain line.
"""

from __future__ import annotations

import re
import types
from argparse import SUPPRESS
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from base.errors import LONGEST_SHOWN, UsageError, closest, did_you_mean, shown, unknown_name

T = TypeVar("T")
FieldPath = tuple[str, ...]
"""Names of fields, from the outermost section to the field."""
Unlisted = Annotated[T, SUPPRESS]
"""A field that ``--help`` leaves out, as a file is the place for it; its flag works all the same."""


class Section(BaseModel):
    """A part of a configuration: immutable, closed to keys that it does not know, its numbers finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    short_names: ClassVar[Mapping[FieldPath, str]] = {}
    """Fields that have a second, shorter name, such as ``ffn`` for ``model.ffn``."""
    hints: ClassVar[Mapping[str, str]] = {}
    """Flags and keys that mean something else elsewhere, and keys of mappings: what to write here."""
    common: ClassVar[tuple[str, ...]] = ()
    """Fields by their dotted names that ``--help`` lists, as ``--help all`` lists all; without any, all."""


@dataclass(frozen=True)
class Typed:
    """What a user typed for one section.

    Args:
        values: The value of each field that was given, by its path; not checked yet.
        names: What messages call each.
    """

    values: Mapping[FieldPath, Any]
    names: Mapping[FieldPath, str]

    def of(self, section: type[BaseModel]) -> Typed:
        """Return what was typed for the fields that a section has."""
        inside = [path for path in self.values if path[0] in section.model_fields]
        return Typed(
            {path: self.values[path] for path in inside}, {path: self.names[path] for path in inside}
        )

    def given(self, name: str, path: FieldPath, value: Any) -> Typed:
        """Return the same with one more field."""
        return Typed({**self.values, path: value}, {**self.names, path: name})

    def onto(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return nested values with those that were typed in place of their own."""
        return reduce(lambda whole, path: _put(whole, path, self.values[path]), self.values, dict(values))


def _put(values: Mapping[str, Any], path: FieldPath, value: Any) -> dict[str, Any]:
    name, *below = path
    inner = values.get(name)
    # What is no mapping where one belongs is told when all is checked, if it is not replaced.
    return {
        **values,
        name: _put(inner if isinstance(inner, dict) else {}, tuple(below), value) if below else value,
    }


def members(annotation: Any) -> list[Any]:
    """List the types that a field may have, without None and without what else is annotated."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        return [kind for each in get_args(annotation) for kind in members(each)]
    return [] if annotation is type(None) else [annotation]


def is_section(kind: Any) -> bool:
    """Whether a type is a part of a configuration, with fields of its own."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def leaf_fields(kind: type[BaseModel], path: FieldPath = ()) -> Iterator[tuple[FieldPath, FieldInfo]]:
    """List the fields of a section and of the sections in it, by their paths."""
    for name, field in kind.model_fields.items():
        inner, *others = members(field.annotation)
        if is_section(inner) and not others:
            yield from leaf_fields(inner, (*path, name))
        else:
            yield (*path, name), field


def closest_setting(typed: str, names: Collection[str]) -> str | None:
    """Return the flag or keyword that was meant; ``max_steps`` without its section is ``optim.max_steps``."""
    section, dot, last = typed.rpartition(".")
    same = [name for name in names if name.rpartition(".")[2] == last]
    longer = [name for name in names if dot and name.startswith(section + dot) and name.endswith(last)]
    return next(iter(same + longer), None) or closest(typed, names)


Config = TypeVar("Config", bound=BaseModel)
NOT_FILLED_IN = "${...} is not filled in here; write the value"

PLAIN = {
    r", (unable to|got a number) .*| after validation, .*": "",
    r"^\w+ should ": "must ",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid string": "text",
    "a valid (tuple|list)": "a list, such as [a, b]",
    "a valid dictionary.*": "a mapping of keys to values",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
}
"""What is made of pydantic's own words, by patterns that are replaced in this order."""


def check(
    kind: type[Config], values: Mapping[str, Any], typed: Typed | None = None, source: str = ""
) -> Config:
    """Make a section of nested values and what was typed on top of them.

    Args:
        kind: The section.
        values: As a YAML file has them.
        typed: What replaces them.
        source: Where they are from, for messages.

    Raises:
        UsageError: For an unknown key or a value that is not allowed; names the file and key, or the flag.
    """
    typed = typed or Typed({}, {})
    try:
        return kind.model_validate(typed.onto(values))
    except ValidationError as error:
        raise explain(error, kind, source, typed.names) from None


def explain(
    error: ValidationError, model: type, source: str, typed: Mapping[FieldPath, str] | None = None
) -> UsageError:
    """Tell the first mistake in one line: where, which key, what is wrong, the closest match.

    Args:
        error: All that pydantic found.
        model: What the values are for.
        source: The file that they are from.
        typed: What messages call the fields that were typed.
    """
    typed = typed or {}
    errors: list[Any] = error.errors()
    # A misspelt key is also a missing one, and its own complaint comes last.
    unknown = ("extra_forbidden", "invalid_key")
    first = min(errors, key=lambda each: each["type"] not in unknown)
    path, place, kinds = _locate(model, first["loc"])
    flag = typed.get(path)
    where = f"{flag}: " if flag else "".join(f"{part}: " for part in (source, place) if part)
    if first["type"] in unknown:
        return UsageError(f"{where}unknown key, {_closest(model, first['loc'])}")
    if first["type"] == "value_error":
        is_typed = any(each[: len(path)] == path for each in typed)
        of_section = any(map(is_section, kinds))  # a rule over several fields, which names them itself
        return UsageError(f"{'' if of_section and is_typed else where}{_sentence(first)}")
    if first["type"] == "literal_error" and len(errors) == 1:
        words = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
        mistake = unknown_name(f"value of {flag or place}:", first["input"], words)
        return UsageError(f"{'' if flag or not source else f'{source}: '}{mistake}")
    # What may have one of several types is wrong in several ways.
    ways = dict.fromkeys(_sentence(each) for each in errors if _locate(model, each["loc"])[0] == path)
    sentence = " or ".join(ways).replace(" or must be ", " or ")
    example = getattr(model, "hints", {}).get(place) if "mapping" in sentence else None
    return UsageError(f"{where}{sentence}{_shown_value(first, flag)}{f', {example}' if example else ''}")


def _locate(model: type, location: Sequence[str | int]) -> tuple[FieldPath, str, list[Any]]:
    """Find the place that pydantic means; it also names which of several types it tried.

    Returns:
        The field, by its path; the same as a reader sees it, with places in a list and names in a mapping;
        and the types that it may have.
    """
    kinds: list[Any] = [model]
    field: list[str] = []
    place: list[str] = []
    # pydantic's ("model", "ffn_options", "str", 0) is the field ("model", "ffn_options"), seen as
    # model.ffn_options.0: "str" only says which of the field's types it tried, and is passed over.
    for part in location:
        sections = [kind for kind in kinds if is_section(kind)]
        section = next((kind for kind in sections if part in kind.model_fields), None)
        if section is not None:
            kinds = members(section.model_fields[str(part)].annotation)
            field += [str(part)] if len(field) == len(place) else []
        elif isinstance(part, int) or any(get_origin(kind) is dict for kind in kinds):
            kinds = [inner for kind in kinds for each in get_args(kind) for inner in members(each)]
        elif not sections:
            continue
        place.append(str(part))
    return tuple(field), ".".join(place), kinds


def _closest(model: type, location: Sequence[str | int]) -> str:
    kinds = _locate(model, location[:-1])[2]
    names = [name for kind in kinds if is_section(kind) for name in kind.model_fields]
    known = f"known: {', '.join(names)}"
    short = {name: path for path, name in getattr(model, "short_names", {}).items()}
    last = str(location[-1]).rpartition(".")[2]
    if re.fullmatch(r"\d+(e[-+]?\d+)?", last):  # {learning_rate: 2,0e-3} has two keys
        return "a decimal is written with a point, as 0.001"
    elsewhere = [path for path, _ in leaf_fields(model) if path[-1] == last] + [short.get(last, ())]
    if len(elsewhere[0]) == 2 and last not in names:
        return f"write {elsewhere[0][1]} under {elsewhere[0][0]}:"
    hint = getattr(model, "hints", {}).get(str(location[0]))
    return hint or did_you_mean(closest(str(location[-1]), names), known)


def _sentence(error: Any) -> str:
    """What pydantic says of a value, without what it says of itself."""
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "value_error":
        return error["msg"].removeprefix("Value error, ")
    return reduce(lambda text, rule: re.sub(rule, PLAIN[rule], text), PLAIN, error["msg"])


def _shown_value(error: Any, flag: str | None) -> str:
    value = error["input"]
    if error["type"] == "missing" or not isinstance(value, str | int | float | bool | None):
        return ""
    if value is None:
        return " (is null)"
    share = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", str(value))
    cure = f"; write {float(share[1]) / 100:g}" if share else ""
    if error["type"] == "float_parsing" and re.fullmatch(r"[-+]?\d+,\d+(e[-+]?\d+)?", str(value)):
        cure = "; a decimal is written with a point"
    cure = f"; {NOT_FILLED_IN}" if "${" in str(value) else cure
    return f" (is {str(value)[:LONGEST_SHOWN] if flag else shown(value)}){cure}"
