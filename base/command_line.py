"""Command lines: one flag for every field of a command's arguments, read into what each was given.

pydantic-settings makes the flags and their help of a model's fields, and argparse finds the words of each.
The way of pydantic-settings from words to values is left out: it takes commas and quotes out of texts, and
wants options as JSON. Here a list is several words, and a mapping NAME VALUE NAME VALUE.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import textwrap
from argparse import SUPPRESS, ArgumentError, ArgumentParser, BooleanOptionalAction
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_settings import CliPositionalArg as Positional
from pydantic_settings import CliSettingsSource

from base.errors import UsageError, did_you_mean
from base.options import read_value
from base.sections import FieldPath, Section, Typed, check, closest_setting, is_section, leaf_fields, members

__all__ = ["Positional", "describe_fields", "parse_flags", "read_flags", "refuse_position_behind_list"]

Arguments = TypeVar("Arguments", bound=Section)
LONGEST_HELP = 76
"""Characters of a flag's line where ``--help`` lists the common ones."""
_SWITCHES = {"True": True, "False": False}


def read_flags(kind: type[Section], args: Sequence[str] | None = None, prog: str = "") -> Typed:
    """Find what a command line gives to each field of a section; for ``--help``, print it and exit.

    Args:
        kind: What the command line is for; its docstring and those of its fields are the help.
        args: The command line without the command; None takes that of the process.
        prog: The command, as a user types it.

    Raises:
        UsageError: For an unknown flag, with the closest match, and for one without its value or left out.
    """
    args = [_with_dashes(word) for word in (sys.argv[1:] if args is None else args)]
    is_whole = any(pair in (("--help", "all"), ("-h", "all")) for pair in pairwise(args))
    if {"--help", "-h"} & {*args}:
        describe_fields(kind)
    flags = _Flags(kind, prog, is_whole)
    try:
        namespace, unknown = flags.parser.parse_known_intermixed_args(args)
    except ArgumentError as error:
        raise _unreadable(error) from None
    for word in unknown:
        if word.startswith("-"):
            raise _unknown(word, flags.parser, kind.hints)
    words = {tuple(name.split(".")): value for name, value in vars(namespace).items() if value != []}
    for path, field in flags.fields.items():
        if field.is_required() and path not in words:
            refuse_position_behind_list({flags.names[path]: value for path, value in words.items()})
            describe_fields(kind)
            raise UsageError(f"{flags.names[path]} is missing: {field.description} --help says more")
    if unknown:
        before = [word for word in args[: args.index(unknown[0])] if word.startswith("--")]
        raise _unknown(unknown[0], flags.parser, kind.hints, "".join(before[-1:]))
    values = {path: _value(flags.fields[path], flags.names[path], value) for path, value in words.items()}
    return Typed(values, {path: flags.names[path] for path in words})


def parse_flags(kind: type[Arguments], args: Sequence[str] | None = None, prog: str = "") -> Arguments:
    """Read flags into a section, and check them; otherwise as ``read_flags``.

    Raises:
        UsageError: As well for a value that is not allowed.
    """
    return check(kind, {}, read_flags(kind, args, prog))


def describe_fields(kind: type[Section]) -> None:
    """Give the fields of a section, and of those in it, their docstrings as ``description``.

    Only ``--help`` reads these: pydantic would look for them at each start of a command, which is slow.
    """
    for owner in [each for each in reversed(kind.__mro__) if issubclass(each, Section)]:
        (section,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        for pair in pairwise(section.body):  # type: ignore[missing-attribute]
            match pair:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    if name in kind.model_fields:  # not a ClassVar
                        kind.model_fields[name].description = inspect.cleandoc(text)
    for inner in {each for field in kind.model_fields.values() for each in members(field.annotation)}:
        if is_section(inner):
            describe_fields(inner)


class _Flags:
    """The flags of a section.

    Attributes:
        parser: What finds their words.
        fields: What they are for.
        names: What each is called in full.
        positions: Those that are given without a name.
    """

    def __init__(self, kind: type[Section], prog: str, is_whole: bool) -> None:
        self.fields: Mapping[FieldPath, FieldInfo] = dict(leaf_fields(kind))
        self.names: dict[FieldPath, str] = {}
        self.positions: list[FieldPath] = []
        self.parser = ArgumentParser(
            prog,
            description=inspect.getdoc(kind),
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, max_help_position=32),
            allow_abbrev=False,
            exit_on_error=False,
        )
        self._kind = kind
        self._listed = () if is_whole else kind.common
        CliSettingsSource(
            kind,  # type: ignore[bad-argument-type]
            root_parser=self.parser,
            add_argument_method=self._add,
            cli_implicit_flags=True,
            cli_kebab_case=True,
            cli_hide_none_type=True,
        )
        positions = (
            self.names[path] if self.fields[path].is_required() else f"[{self.names[path]}]"
            for path in self.positions
        )
        if self._listed:
            self.parser.epilog = f"--help all lists all {len(self.fields)} flags."
            # Of the sections none is left but what is listed without them.
            self.parser._action_groups = self.parser._action_groups[:2]
        self.parser.usage = " ".join([prog, *positions, "[--FLAG VALUE ...]"])

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
            if self._listed:
                settings["help"] = _first_sentence(settings["help"])
            number = "*" if tuple in origins else "?"  # read_flags tells which is missing
            context.add_argument(*names, **settings | {"nargs": number})
            return
        self.names[path] = names[0]
        # Not by cli_shortcuts, which leaves out a short name that a section has, as --protocol.
        if path in self._kind.short_names:
            names = (*names, f"--{self._kind.short_names[path]}")
        if settings.get("action") is BooleanOptionalAction:
            settings |= {"action": "store", "metavar": "bool"}  # True, False, or None
        if origins & {tuple, dict}:
            metavar = "NAME VALUE" if dict in origins else "VALUE"
            settings |= {"action": "extend", "nargs": "+", "metavar": metavar}
        if self._listed and ".".join(path) in self._listed:
            context = self.parser
            settings["help"] = _first_sentence(settings["help"])
            for name in names[:-1]:  # of two names the short one is listed
                self.parser.add_argument(name, **settings | {"help": SUPPRESS})
            names = names[-1:]
        elif self._listed:
            settings["help"] = SUPPRESS
        kinds = members(self.fields[path].annotation)
        if self.fields[path].annotation is bool or (bool in kinds and len(kinds) > 1):  # such as auto
            _add_switch(context, names, settings, self.fields[path].default)
            return
        context.add_argument(*names, **settings)


def _with_dashes(word: str) -> str:
    """Write ``--max_steps=3`` as ``--max-steps=3``; a value is left as it is."""
    flag, equals, value = word.partition("=")
    return f"{flag.replace('_', '-')}{equals}{value}" if word.startswith("--") else word


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


def _first_sentence(text: str) -> str:
    """Shorten a help to its first sentence, two lines at most, and its default."""
    default = re.search(r" \(default: [^()]*\)$", text)
    sentence = re.split(r"[.;](?=\s)", text.removesuffix(default[0] if default else ""))[0].rstrip(".")
    return textwrap.shorten(sentence, LONGEST_HELP, placeholder=" ...") + (default[0] if default else "")


def _add_switch(context: Any, names: Sequence[str], settings: Mapping[str, Any], default: object) -> None:
    """Add a flag that takes no value, and its opposite; help shows the one that changes something."""
    helps = {True: settings["help"], False: f"Turns off: {settings['help']}"}
    opposites = [f"{start}no-{last}" for start, last in map(_split_last, names)]
    pair = context.add_mutually_exclusive_group()
    for value, called in ((True, names), (False, opposites)):
        shown = SUPPRESS if value == default or settings["help"] == SUPPRESS else helps[value]
        pair.add_argument(
            *called, dest=settings["dest"], action="store_const", const=value, default=SUPPRESS, help=shown
        )


def _split_last(name: str) -> tuple[str, str]:
    """Split a flag before its last part: ``--train.size`` is ``--train.`` and ``size``."""
    start, dot, last = name.removeprefix("--").rpartition(".")
    return f"--{start}{dot}", last


def _value(field: FieldInfo, name: str, words: Any) -> Any:
    """Put words into the form that a YAML file would give, still without checking them.

    Raises:
        UsageError: If a mapping has a name without a value.
    """
    kinds = members(field.annotation)
    literals = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    word = words[0] if isinstance(words, list) and len(words) == 1 else words
    if word in ("none", "None", "null") and word not in literals and type(None) in get_args(field.annotation):
        return None
    if not isinstance(words, list):
        return words
    if any(get_origin(kind) is dict for kind in kinds):
        if len(words) % 2:
            raise UsageError(f"{name}: {words[-1]} has no value; give pairs: NAME VALUE NAME VALUE")
        values = (_SWITCHES.get(word, read_value(word)) for word in words[1::2])
        return dict(zip(words[::2], values, strict=True))
    return word if word in literals else words


def _unreadable(error: ArgumentError) -> UsageError:
    """Tell of a flag without its value, or of a switch with one."""
    flag = (error.argument_name or "").partition("/")[0]
    if "expected" in error.message:
        return UsageError(f"{flag} needs a value; one that begins with a dash is written {flag}=-VALUE")
    return UsageError(f"{flag}: {error.message}; --help says more")


def _unknown(word: str, parser: ArgumentParser, hints: Mapping[str, str], before: str = "") -> UsageError:
    """Tell of a word that belongs to no flag, or not to the one before it; a flag may lack its section."""
    # The dashes in front are alike in all flags, and would make any two of them seem close.
    flags = {name.lstrip("-"): name for action in parser._actions for name in action.option_strings}
    name, equals, value = word.lstrip("-+").partition("=")  # Hydra's are +name=value
    typed = name.replace("_", "-")
    hint = hints.get(re.sub(r"^(trainer|model|data|optim|train)\.", "", typed))  # as Lightning writes flags
    close = closest_setting(typed, flags)
    if not word.startswith("-"):
        switch = "a switch is --FLAG or --no-FLAG; " * (word.lower() in ("true", "false"))
        behind = f" behind {before}" if before else ""
        meant = equals and (hint or (close and f"write {flags[close]} {value}"))
        cure = meant or hints.get(before, f"{switch}--help lists all flags")
        return UsageError(f"{word!r} is one word too many{behind}; {cure}")
    if hint:
        return UsageError(f"unknown flag {word}; {hint}")
    return UsageError(
        f"unknown flag {word}, {did_you_mean(close and flags[close], '--help lists all flags')}"
    )


def refuse_position_behind_list(flags: Mapping[str, Any]) -> None:
    """Refuse a file as the last of a flag's values, where what is given without a flag is missing.

    Raises:
        UsageError: A flag with several values takes what stands behind it for one of them.
    """
    for flag, value in flags.items():
        if isinstance(value, list | tuple) and value and Path(str(value[-1])).exists():
            raise UsageError(f"{value[-1]} was read as a value of {flag}; write it before the flags")
