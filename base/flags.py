"""The flags of a command: one for every field of its arguments, and the words that a user gave to each."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import docstring_parser
import tyro
from pydantic import BaseModel
from tyro.conf import FlagCreatePairsOff, Positional, Suppress, UseAppendAction
from tyro.constructors import PrimitiveConstructorSpec

from base.errors import UsageError

FieldPath = tuple[str, ...]
"""Names of fields, from the outermost section to the field."""

_Words = tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class Flag:
    """A field as it is given on a command line."""

    path: FieldPath
    """Where its value goes."""
    names: tuple[str, ...]
    """As typed, its full name first; one without dashes is a position."""
    annotation: Any
    """Type of its value."""
    has_opposite: bool = False
    """Whether ``--no-...`` turns it off."""
    is_repeated: bool = False
    """Whether it is given once for each of its values."""
    is_required: bool = False
    """Whether there is no default."""
    help: Callable[[], str] = str
    """Gives what it is for."""

    @property
    def name(self) -> str:
        """Its full name."""
        return self.names[0]

    @property
    def is_positional(self) -> bool:
        """Whether it is given without a name."""
        return not self.name.startswith("-")

    @property
    def opposites(self) -> tuple[str, ...]:
        """The names that turn it off."""
        if not self.has_opposite:
            return ()
        return tuple(f"{start}{dot}no-{last}" for start, dot, last in map(_split_last, self.names))

    @property
    def num_words(self) -> int | Literal["*"]:
        """How many words follow it, each time that it is given."""
        if self.is_repeated:
            return 1
        kinds = [get_origin(kind) or kind for kind in members(self.annotation)]
        if any(kind in (tuple, list, dict) for kind in kinds):
            return "*"
        return 0 if _bare(self.annotation) is bool else 1


def _split_last(name: str) -> tuple[str, str, str]:
    """Split a flag before its last part: ``--train.size`` is ``--train``, ``.`` and ``size``."""
    start, dot, last = name.removeprefix("--").rpartition(".")
    return f"--{start}", dot, last


def members(annotation: Any) -> list[Any]:
    """List the types that a field may have, without None and without what else is annotated."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        return [kind for each in get_args(annotation) for kind in members(each)]
    return [] if annotation is type(None) else [annotation]


def is_section(kind: Any) -> bool:
    """Whether a type is a part of a configuration, with fields of its own."""
    return isinstance(kind, type) and (issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind))


def fields_of(kind: type) -> dict[str, Any]:
    """Return the annotations of a section's fields, with what else is annotated."""
    hints = get_type_hints(kind, include_extras=True)
    if issubclass(kind, BaseModel):
        return {name: hints[name] for name in kind.model_fields}
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _is_required(kind: type, name: str) -> bool:
    if issubclass(kind, BaseModel):
        return kind.model_fields[name].is_required()
    field = next(field for field in dataclasses.fields(kind) if field.name == name)
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def with_sections(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values with an empty section where one is needed and none is given."""
    needed = {
        field: section
        for field, annotation in fields_of(kind).items()
        for section in members(annotation)
        if is_section(section) and _is_required(kind, field)
    }
    return {field: with_sections(section, {}) for field, section in needed.items()} | dict(values)


def list_flags(kind: type, default: Any = None, path: FieldPath = (), prefix: str = "") -> Iterator[Flag]:
    """List the flags of a model or a dataclass, those of its sections included.

    They have the names that tyro gives them: ``--section.field``, and no prefix for a section whose name is
    empty. What is suppressed is no flag.

    Args:
        kind: What to list.
        default: One of it, where its sections are of other types than ``kind`` says.
        path: The sections that it is in.
        prefix: Of its flags.
    """
    for field, annotation in fields_of(kind).items():
        metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
        if Suppress in metadata:
            continue
        settings = [each for each in metadata if hasattr(each, "prefix_name")]  # of tyro.conf.arg
        own = next((each.name for each in settings if each.name is not None), field.replace("_", "-"))
        inner, *others = members(annotation)
        if not others and is_section(inner):
            held = getattr(default, field, None)
            section = type(held) if isinstance(held, inner) else inner
            yield from list_flags(section, held, (*path, field), f"{prefix}{own}." if own else prefix)
            continue
        if Positional in metadata:
            metavars = [each.metavar for each in settings if each.metavar]
            names = (metavars[0] if metavars else inner.__name__.upper(),)
        else:
            names = (f"--{prefix}{own}", *(alias for each in settings for alias in each.aliases or ()))
        yield Flag(
            path=(*path, field),
            names=names,
            annotation=annotation,
            # Of a choice that may be left open, the help shows the values and no opposite.
            has_opposite=_bare(annotation) is bool and FlagCreatePairsOff not in metadata,
            is_repeated=UseAppendAction in metadata,
            is_required=_is_required(kind, field),
            help=partial(_help_of, kind, field),
        )


def _bare(annotation: Any) -> Any:
    """A type without what is said beside it."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _help_of(kind: type, field: str) -> str:
    """Return what is written below a field in the source, of the class that has it."""
    told = (
        param.description
        for each in kind.__mro__
        for param in docstring_parser.parse_from_object(each).params
        if param.arg_name == field
    )
    return " ".join((next(told, "") or "").split())


def read_words(
    flags: Sequence[Flag], args: Sequence[str], lenient: bool = False
) -> tuple[dict[str, tuple[str, ...]], list[str]] | None:
    """Find the words behind each flag of a command line, in no type yet.

    Args:
        flags: Those there are.
        args: The command line.
        lenient: Let no flag be required, and any be followed by no word or by several.

    Returns:
        The words behind each flag and opposite that was given, by its name, and what belongs to none. None if
        a flag has too few words or is missing, which only a strict reading minds.
    """
    names: list[str] = []
    fields: list[Any] = []
    for flag in flags:
        for name, aliases in _switches(flag):
            field = f"field_{len(names)}"
            names.append(name)
            markers = [Positional] if flag.is_positional else []
            named = tyro.conf.arg(name=name.removeprefix("--"), aliases=aliases)
            num_words = "*" if lenient and flag.num_words == 1 else flag.num_words
            needed = flag.is_required and not lenient and num_words == 1
            if flag.is_repeated:
                each = Annotated[(_Words, _as_typed(num_words))]
                fields.append((field, Annotated[(tuple[each, ...], UseAppendAction, named)], ()))
                continue
            kind = Annotated[(_Words, *markers, named, _as_typed(num_words))]
            fields.append((field, kind) if needed else (field, kind, None))
    try:
        read, unknown = tyro.cli(
            dataclasses.make_dataclass("Words", fields, kw_only=True),
            args=args,
            return_unknown_args=True,
            add_help=False,
            console_outputs=False,
        )
    except SystemExit:
        return None
    found = {name: getattr(read, f"field_{place}") for place, name in enumerate(names)}
    for name in (flag.name for flag in flags if flag.is_repeated):
        found[name] = _join(found[name])
    positions = {flag.name for flag in flags if flag.is_positional}
    # tyro reads no word at all as an empty position.
    given = {
        name: words for name, words in found.items() if words or (words is not None and name not in positions)
    }
    return given, unknown


def _join(times: tuple[tuple[str, ...], ...]) -> _Words:
    """The words of each time that a flag was given; none if one of them lacks its own."""
    if not times:
        return None
    return () if () in times else tuple(word for words in times for word in words)


def _switches(flag: Flag) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each name that stands for something else, with its aliases."""
    yield flag.names[0], flag.names[1:]
    if flag.opposites:
        yield flag.opposites[0], flag.opposites[1:]


def _as_typed(num_words: int | Literal["*"]) -> PrimitiveConstructorSpec:
    return PrimitiveConstructorSpec(
        nargs=num_words,
        metavar="WORD",
        instance_from_str=tuple,
        is_instance=lambda _: True,
        str_from_instance=lambda _: [],
    )


def to_value(flag: Flag, words: tuple[str, ...]) -> Any:
    """Put words into the form that a YAML file would give, still without checking them.

    Raises:
        UsageError: If a mapping has a name without a value.
    """
    kinds = members(flag.annotation)
    origins = {get_origin(kind) or kind for kind in kinds}
    if words == ("None",) and _may_be_none(flag.annotation):
        return None
    if flag.num_words != "*" and not flag.is_repeated:
        return words[0] if words else True
    if dict in origins:
        if len(words) % 2:
            raise UsageError(
                f"{flag.name}: {words[-1]} has no value; give names and values: NAME VALUE NAME VALUE"
            )
        return {name: _number(value) for name, value in zip(words[::2], words[1::2], strict=True)}
    alone = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    return words[0] if len(words) == 1 and words[0] in alone else list(words)


def _may_be_none(annotation: Any) -> bool:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return get_origin(annotation) in (Union, types.UnionType) and type(None) in get_args(annotation)


def _number(word: str) -> int | float | bool | str:
    """Read a word as YAML would, but for numbers such as 1e-3, which it takes for text."""
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            pass
    return {"True": True, "False": False}.get(word, word)
