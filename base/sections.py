"""Sections of a configuration: pydantic models whose fields a YAML file, a flag or a keyword gives."""

from __future__ import annotations

import types
from argparse import SUPPRESS
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

T = TypeVar("T")
FieldPath = tuple[str, ...]
"""Names of fields, from the outermost section to the field."""
Unlisted = Annotated[T, SUPPRESS]
"""A field that ``--help`` leaves out, as a file is the place for it; its flag works all the same."""


class Section(BaseModel):
    """A part of a configuration: immutable, closed to keys that it does not know, its numbers finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    short_names: ClassVar[Mapping[FieldPath, str]] = {}
    """Fields that have a second, shorter name, such as ``ffn`` for ``model.ffn``."""


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
    name, *rest = path
    inner = values.get(name)
    # What is no mapping where one belongs is told when all is checked, if it is not replaced.
    return {
        **values,
        name: _put(inner if isinstance(inner, dict) else {}, tuple(rest), value) if rest else value,
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
