"""Command lines: read once into the words of each flag, then filled up and checked.

``read_flags`` finds the words, ``CommandLine.complete`` puts them on top of what a file or a study says and
checks the whole. A command that needs no file in between calls ``parse_flags``, which does both.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, NoReturn, TypeVar

import tyro
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from base.errors import UsageError
from base.flags import FieldPath, Flag, is_section, list_flags, read_words, to_value, with_sections
from base.mistakes import explain

Arguments = TypeVar("Arguments")
SPOKEN: dict[str, str] = {}
"""What help calls a command in this process, by what it is called elsewhere: see ``speak_as``."""
HELP = Flag(path=("help",), names=("--help", "-h"), annotation=bool)


class Section(BaseModel):
    """A part of a configuration: immutable, closed to keys that it does not know, its numbers finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Typed:
    """What a user typed, below one section.

    Args:
        values: The value of each field that was given, by its path; not checked yet.
        names: The flag of each, as typed in full.
    """

    values: Mapping[FieldPath, Any]
    names: Mapping[FieldPath, str]

    def below(self, *section: str) -> Typed:
        """Return what was typed for one section alone."""
        size = len(section)
        inside = [path for path in self.values if path[:size] == section]
        return Typed(
            {path[size:]: self.values[path] for path in inside},
            {path[size:]: self.names[path] for path in inside},
        )

    def given(self, name: str, path: FieldPath, value: Any) -> Typed:
        """Return the same with one more flag."""
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


@dataclass(frozen=True)
class CommandLine(Generic[Arguments]):
    """A command line as typed.

    Args:
        kind: What it is for.
        typed: What was given.
        wants_help: Whether help is asked for, and nothing else then matters.
    """

    kind: type[Arguments]
    typed: Typed
    wants_help: bool

    def complete(
        self,
        default: Arguments | None = None,
        prog: str | None = None,
        description: str | None = None,
    ) -> Arguments:
        """Fill in what was not given, and check all; where help is asked for, print it and exit.

        Args:
            default: Values of what is not given; ``--help`` shows them.
            prog: The command, as a user types it.
            description: What ``--help`` says first.

        Raises:
            UsageError: For a value that is not allowed.
        """
        if self.wants_help:
            show_help(self.kind, default, prog, description)
        return check(self.kind, {} if default is None else _values_of(default), self.typed)


def read_flags(
    kind: type[Arguments], args: Sequence[str] | None = None, default: Arguments | None = None
) -> CommandLine[Arguments]:
    """Find what a command line gives to each field of a model or a dataclass.

    Args:
        kind: What it is for.
        args: The command line without the command; None takes that of the process.
        default: Sections of other types than ``kind`` says.

    Raises:
        UsageError: For an unknown flag, with the closest match, and for one without its value or left out.
    """
    args = list(sys.argv[1:] if args is None else args)
    flags = [HELP, *list_flags(kind, default)]
    read = read_words(flags, args)
    words, unknown = read or read_words(flags, args, lenient=True) or ({}, [])
    if HELP.name in words:
        return CommandLine(kind, Typed({}, {}) if read is None else _typed(flags[1:], words), True)
    empty = None if read else _without_value(flags, words)
    if empty and unknown and re.match(r"-[^-]", unknown[0]):
        raise UsageError(
            f"{empty.name} needs a value; if it is {unknown[0]}, write {empty.name}={unknown[0]}"
        )
    if unknown:
        raise _unknown(unknown[0], flags)
    if empty:
        raise UsageError(f"{empty.name} needs a value; --help says more")
    if read is None or any(flag.is_required and flag.name not in words for flag in flags):
        raise _missing(flags, words)
    return CommandLine(kind, _typed(flags[1:], words), False)


def parse_flags(
    kind: type[Arguments],
    args: Sequence[str] | None = None,
    default: Arguments | None = None,
    prog: str | None = None,
    description: str | None = None,
) -> Arguments:
    """Read flags into a dataclass or a pydantic model; its field docstrings are the help.

    Args:
        kind: What to read into.
        args: The flags; None takes those of the process.
        default: Values of what is not given; ``--help`` shows them.
        prog: The command, as a user types it.
        description: What ``--help`` says first.

    Raises:
        UsageError: For an unknown flag or a value that is not allowed, with the closest match.
    """
    return read_flags(kind, args, default).complete(default, prog, description)


def check(
    kind: type[Arguments], values: Mapping[str, Any], typed: Typed | None = None, source: str = ""
) -> Arguments:
    """Make arguments of nested values and what was typed on top of them.

    Args:
        kind: A model or a dataclass.
        values: As a YAML file has them.
        typed: What replaces them.
        source: Where they are from, for messages.

    Raises:
        UsageError: For an unknown key or a value that is not allowed; names the file and key, or the flag.
    """
    typed = typed or Typed({}, {})
    adapter: TypeAdapter[Arguments] = TypeAdapter(kind)
    try:
        return adapter.validate_python(with_sections(kind, typed.onto(values)))
    except ValidationError as error:
        mistake = explain(error, kind, source, typed.names)
    if typed.values:  # perhaps they are not to blame
        try:
            adapter.validate_python(with_sections(kind, values))
        except ValidationError as error:
            alone = explain(error, kind, source)
            mistake = alone if str(alone).endswith(str(mistake)) else mistake
    raise mistake


def show_help(
    kind: type[Arguments],
    default: Arguments | None,
    prog: str | None = None,
    description: str | None = None,
) -> NoReturn:
    """Print the help of a command with its defaults, and exit."""
    # `default=None` would be a default too.
    given: dict[str, Any] = {} if default is None else {"default": default}
    told = _spoken(description or inspect.getdoc(kind))
    tyro.cli(kind, args=["--help"], prog=_spoken(prog), description=told, **given)
    raise AssertionError("help ends a command")


def speak_as(names: Mapping[str, str]) -> None:
    """Have help call commands as they are typed in this process.

    Args:
        names: By what each is called elsewhere: ``{"python -m eval": "ffn-ablations eval"}``.
    """
    SPOKEN.update(names)


def _spoken(text: str | None) -> str | None:
    if not text or not SPOKEN:
        return text
    names = "|".join(re.escape(name) for name in sorted(SPOKEN, key=len, reverse=True))
    return re.sub(rf"({names})(?![.\w]*\w)", lambda found: SPOKEN[found[1]], text)


def _typed(flags: Sequence[Flag], words: Mapping[str, tuple[str, ...]]) -> Typed:
    """Put the words of all flags into values.

    Raises:
        UsageError: Where a flag is given together with its opposite, or a name has no value.
    """
    values: dict[FieldPath, Any] = {}
    names: dict[FieldPath, str] = {}
    for flag in flags:
        off = flag.opposites[:1]
        if flag.name in words and off and off[0] in words:
            raise UsageError(f"{flag.name} and {off[0]} were both given; leave one out")
        if flag.name in words:
            values[flag.path], names[flag.path] = to_value(flag, words[flag.name]), flag.name
        elif off and off[0] in words:
            values[flag.path], names[flag.path] = False, off[0]
    return Typed(values, names)


def _unknown(word: str, flags: Sequence[Flag]) -> UsageError:
    """The error for a word that belongs to no flag; a flag may lack its section."""
    if not word.startswith("-"):
        return UsageError(f"{word!r} is one word too many; --help lists all flags")
    typed = word.partition("=")[0].replace("_", "-")
    names = [name for flag in flags if not flag.is_positional for name in (*flag.names, *flag.opposites)]
    same = [name for name in names if name.rpartition(".")[2] == typed.removeprefix("--")]
    bare = {name.lstrip("-"): name for name in names}  # as dashes are alike in all
    close = same or [bare[name] for name in difflib.get_close_matches(typed.lstrip("-"), bare, n=1)]
    hint = f"did you mean {close[0]}?" if close else "--help lists all flags"
    return UsageError(f"unknown flag {word}, {hint}")


def _without_value(flags: Sequence[Flag], words: Mapping[str, tuple[str, ...]]) -> Flag | None:
    """Find a flag that lacks its value."""
    given = (flag for flag in flags if flag.num_words == 1 and flag.name in words)
    return next((flag for flag in given if not words[flag.name]), None)


def _missing(flags: Sequence[Flag], words: Mapping[str, tuple[str, ...]]) -> UsageError:
    """The error for a flag that is missing."""
    missing = next(flag for flag in flags if flag.is_required and flag.name not in words)
    return UsageError(f"{missing.name} is missing: {missing.help()} --help says more")


def _values_of(arguments: Any) -> dict[str, Any]:
    """Return the fields of a model or a dataclass and of its sections, without what is left open."""
    if isinstance(arguments, BaseModel):
        return arguments.model_dump()
    values = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(arguments)}
    return {
        name: _values_of(value) if is_section(type(value)) else value
        for name, value in values.items()
        if value is not tyro.MISSING
    }
