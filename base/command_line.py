"""Command lines: one flag for every field of a command's arguments, read into what each was given.

pydantic-settings makes the flags and their help of a model's fields, and argparse finds the words of each.
The way of pydantic-settings from words to values is left out: it takes commas and quotes out of texts, and
wants options as JSON. Here a list is several words, and a mapping NAME VALUE NAME VALUE.
"""

from __future__ import annotations

import difflib
import inspect
import shlex
import sys
from argparse import (
    SUPPRESS,
    ArgumentError,
    ArgumentParser,
    BooleanOptionalAction,
    RawDescriptionHelpFormatter,
)
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_settings import CliPositionalArg as Positional
from pydantic_settings import CliSettingsSource

from base.errors import UsageError
from base.mistakes import check
from base.sections import FieldPath, Section, Typed, leaf_fields, members

__all__ = ["Positional", "parse_flags", "read_flags", "typed_command"]

Arguments = TypeVar("Arguments", bound=Section)


def read_flags(
    kind: type[Section], args: Sequence[str] | None = None, prog: str = "", description: str | None = None
) -> Typed:
    """Find what a command line gives to each field of a section; for ``--help``, print it and exit.

    Args:
        kind: What the command line is for; its field docstrings are the help.
        args: The command line without the command; None takes that of the process.
        prog: The command, as a user types it.
        description: What ``--help`` says first; None takes the docstring of ``kind``.

    Raises:
        UsageError: For an unknown flag, with the closest match, and for one without its value or left out.
    """
    args = list(sys.argv[1:] if args is None else args)
    flags = _Flags(kind, prog, description)
    try:
        read, unknown = flags.parser.parse_known_intermixed_args(args)
    except ArgumentError as error:
        raise _unreadable(error, args) from None
    if unknown:
        raise _unknown(unknown[0], flags.parser)
    words = {tuple(name.split(".")): given for name, given in vars(read).items() if given != []}
    for path, field in flags.fields.items():
        if field.is_required() and path not in words:
            _refuse_position_behind_list(words, flags.names)
            raise UsageError(f"{flags.names[path]} is missing: {field.description} --help says more")
    values = {path: _value(flags.fields[path], flags.names[path], given) for path, given in words.items()}
    return Typed(values, {path: flags.names[path] for path in words})


def parse_flags(
    kind: type[Arguments],
    args: Sequence[str] | None = None,
    prog: str = "",
    description: str | None = None,
) -> Arguments:
    """Read flags into a section, and check them; otherwise as ``read_flags``.

    Raises:
        UsageError: As well for a value that is not allowed.
    """
    return check(kind, {}, read_flags(kind, args, prog, description))


def typed_command(prog: str, arguments: Section) -> str:
    """Write the command that gives these arguments: positions, then every flag that changes a default."""
    flags = _Flags(type(arguments), prog, None)
    words = {
        path: _words(flags.names[path], reduce(getattr, path, arguments), field, path in flags.positions)
        for path, field in flags.fields.items()
    }
    ordered = (*flags.positions, *(path for path in words if path not in flags.positions))
    return shlex.join([*prog.split(), *(word for path in ordered for word in words[path])])


def _words(name: str, value: Any, field: FieldInfo, is_position: bool) -> list[str]:
    if value == field.get_default(call_default_factory=True):
        return []
    if isinstance(value, Mapping):
        values = [str(word) for pair in value.items() for word in pair]
    else:
        values = [str(word) for word in (value if isinstance(value, tuple) else (value,))]
    if is_position:
        return values
    if field.annotation is bool:
        return [name if value else "no-".join(_split_last(name))]
    # A value that begins with a dash would be read as a flag of its own.
    return [f"{name}={values[0]}"] if len(values) == 1 and values[0].startswith("-") else [name, *values]


class _Flags:
    """The flags of a section.

    Attributes:
        parser: What finds their words.
        fields: What they are for.
        names: What each is called in full.
        positions: Those that are given without a name.
    """

    def __init__(self, kind: type[Section], prog: str, description: str | None) -> None:
        self.fields: Mapping[FieldPath, FieldInfo] = dict(leaf_fields(kind))
        self.names: dict[FieldPath, str] = {}
        self.positions: list[FieldPath] = []
        self.parser = ArgumentParser(
            prog,
            description=description or inspect.getdoc(kind),
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
            exit_on_error=False,
        )
        self._short_names = kind.short_names
        CliSettingsSource(
            kind,  # type: ignore[bad-argument-type]
            root_parser=self.parser,
            add_argument_method=self._add,
            cli_implicit_flags=True,
            cli_kebab_case=True,
            cli_hide_none_type=True,
        )
        shown = (
            self.names[path] if self.fields[path].is_required() else f"[{self.names[path]}]"
            for path in self.positions
        )
        self.parser.usage = " ".join([prog, *shown, "[--FLAG VALUE ...]"])

    def _add(self, context: Any, *names: str, **settings: Any) -> None:
        """Add what pydantic-settings describes, to the parser or to a group of its flags."""
        path = tuple(settings.get("dest", names[0]).split("."))
        if path not in self.fields:  # a whole section as JSON
            return
        origins = {get_origin(kind) for kind in members(self.fields[path].annotation)}
        settings |= {"default": SUPPRESS, "help": _help(settings["help"], self.fields[path])}
        if not names[0].startswith("-"):
            self.positions.append(path)
            self.names[path] = settings["metavar"]
            number = "*" if tuple in origins else "?"  # read_flags tells which is missing
            context.add_argument(*names, **settings | {"nargs": number})
            return
        self.names[path] = names[0]
        names = (*names, *(f"--{short}" for short in [self._short_names.get(path)] if short))
        if settings.get("action") is BooleanOptionalAction:
            if self.fields[path].annotation is bool:
                _add_switch(context, names, settings, self.fields[path].default)
                return
            settings |= {"action": "store", "metavar": "bool"}  # True, False, or None
        if origins & {tuple, dict}:
            metavar = "NAME VALUE" if dict in origins else "VALUE"
            settings |= {"action": "extend", "nargs": "+", "metavar": metavar}
        context.add_argument(*names, **settings)


def _help(text: str, field: FieldInfo) -> str:
    """Say a field's default as it would be typed, and none of a switch, which changes it."""
    described, marker, default = text.rpartition("(default: ")
    if not marker:
        return text
    if field.annotation is bool or default in ("null)", "None)", "()", "())", "{})", ")"):
        return described.rstrip()
    if isinstance(field.default, tuple):
        default = " ".join(map(str, field.default)) + ")"
    return f"{described}{marker}{default}"


def _add_switch(context: Any, names: Sequence[str], settings: Mapping[str, Any], default: object) -> None:
    """Add a flag that takes no value, and its opposite; help shows the one that changes something."""
    helps = {True: settings["help"], False: f"Turns off: {settings['help']}"}
    opposites = [f"{start}no-{last}" for start, last in map(_split_last, names)]
    pair = context.add_mutually_exclusive_group()
    for value, called in ((True, names), (False, opposites)):
        shown = SUPPRESS if value == default else helps[value]
        pair.add_argument(
            *called, dest=settings["dest"], action="store_const", const=value, default=SUPPRESS, help=shown
        )


def _split_last(name: str) -> tuple[str, str]:
    """Split a flag before its last part: ``--train.size`` is ``--train.`` and ``size``."""
    start, dot, last = name.removeprefix("--").rpartition(".")
    return f"--{start}{dot}", last


def _value(field: FieldInfo, name: str, given: Any) -> Any:
    """Put words into the form that a YAML file would give, still without checking them.

    Raises:
        UsageError: If a mapping has a name without a value.
    """
    kinds = members(field.annotation)
    if given in ("None", ["None"]) and type(None) in get_args(field.annotation):
        return None
    if not isinstance(given, list):
        return given
    if any(get_origin(kind) is dict for kind in kinds):
        if len(given) % 2:
            raise UsageError(
                f"{name}: {given[-1]} has no value; give names and values: NAME VALUE NAME VALUE"
            )
        return {key: _plain(word) for key, word in zip(given[::2], given[1::2], strict=True)}
    alone = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    return given[0] if len(given) == 1 and given[0] in alone else given


def _plain(word: str) -> int | float | bool | str:
    """Read a word as YAML would, but for numbers such as 1e-3, which it takes for text."""
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            pass
    return {"True": True, "False": False}.get(word, word)


def _unreadable(error: ArgumentError, args: Sequence[str]) -> UsageError:
    """Tell of a flag without its value, or of a switch with one."""
    names = (error.argument_name or "").split("/")
    if "not allowed with argument" in error.message:
        other = error.message.rpartition(" ")[2].partition("/")[0]
        return UsageError(f"{names[0]} and {other} were both given; leave one out")
    if "expected" not in error.message:
        return UsageError(f"{names[0]} takes no value; write it alone, or leave it out")
    behind = next((word for flag, word in pairwise(args) if flag in names), "")
    if behind.startswith("-") and not behind.startswith("--"):
        return UsageError(f"{names[0]} needs a value; if it is {behind}, write {names[0]}={behind}")
    return UsageError(f"{names[0]} needs a value; --help says more")


def _unknown(word: str, parser: ArgumentParser) -> UsageError:
    """Tell of a word that belongs to no flag; a flag may lack its section."""
    if not word.startswith("-"):
        return UsageError(f"{word!r} is one word too many; --help lists all flags")
    typed = word.partition("=")[0].replace("_", "-")
    names = [name for action in parser._actions for name in action.option_strings]
    same = [name for name in names if name.rpartition(".")[2] == typed.removeprefix("--")]
    bare = {name.lstrip("-"): name for name in names}  # as dashes are alike in all
    close = same or [bare[name] for name in difflib.get_close_matches(typed.lstrip("-"), bare, n=1)]
    hint = f"did you mean {close[0]}?" if close else "--help lists all flags"
    return UsageError(f"unknown flag {word}, {hint}")


def _refuse_position_behind_list(words: Mapping[FieldPath, Any], names: Mapping[FieldPath, str]) -> None:
    """A flag with several values takes what stands behind it for one of them."""
    for path, given in words.items():
        if isinstance(given, list) and Path(given[-1]).exists():
            raise UsageError(f"{given[-1]} was read as a value of {names[path]}; write it before the flags")
