"""The options of a variant or a head: defaults, what they may be, and how a user types them; and names.

This travels with a pushed model, so it imports nothing but ``base.errors``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from base.errors import UsageError, shown, unknown_name


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a variant, as typed in a YAML file or after ``--model.ffn-options``."""

    default: int | float | str
    """Value when the user gives none; its type is the type of the option."""
    help: str
    """What it does, in a few words."""
    minimum: int | None = None
    """Smallest allowed number."""
    maximum: float | None = None
    """Largest allowed number."""
    choices: tuple[str, ...] | None = None
    """Allowed words."""

    def check(self, label: str, value: Any) -> int | float | str:
        """Return ``value`` in the option's type.

        Args:
            label: The option as named in messages, for example ``"'kan' option grid_size"``.
            value: What the user gave.

        Raises:
            UsageError: If the type, the range or the word does not fit.
        """
        if self.choices is not None:
            if value not in self.choices:
                raise unknown_name(f"value of {label}:", value, self.choices)
            return value
        if isinstance(value, bool) or not isinstance(value, int | float) or not is_finite(value):
            raise UsageError(f"{label} must be a finite number, got {shown(value)}")
        if isinstance(self.default, int):
            if value != int(value):
                raise UsageError(f"{label} must be a whole number, got {value!r}")
            value = int(value)
        if self.minimum is not None and value < self.minimum:
            raise UsageError(f"{label} must be at least {self.minimum}, got {value!r}")
        if self.maximum is not None and value > self.maximum:
            raise UsageError(f"{label} must be at most {self.maximum}, got {value!r}")
        return value if isinstance(self.default, int) else float(value)


def is_finite(value: float) -> bool:
    """Whether a number is one that a float has room for; a whole number may be larger."""
    return abs(value) <= sys.float_info.max


def resolve_options(
    name: str, allowed: Mapping[str, Option], values: Mapping[str, Any] | None, kind: str = "FFN variant"
) -> dict[str, int | float | str]:
    """Fill in the defaults of a variant's options and check those that were given.

    Args:
        name: Name of the variant, for messages.
        allowed: The variant's options.
        values: What the user set; ``None`` is the same as nothing.
        kind: What the variant is one of, for messages.

    Returns:
        One value for each allowed option.

    Raises:
        UsageError: For an option that the variant does not have, or a value that it does not accept.
    """
    values = values or {}
    for key in values:
        if key not in allowed and not allowed:
            raise UsageError(f"{kind} {name!r} takes no options, got {key!r}; remove it")
        if key not in allowed:
            raise unknown_name(f"option of {kind} {name!r}:", key, allowed)
    return {
        key: option.check(f"{name!r} option {key}", values.get(key, option.default))
        for key, option in allowed.items()
    }


Value = int | float | str


@dataclass(frozen=True)
class OptionText:
    """What was read: a name, its options in the order in which they stood, and words that stand alone."""

    name: str
    options: Mapping[str, Value]
    words: tuple[str, ...] = ()


def parse_option_text(text: str, kind: str, words: Sequence[str] = ()) -> OptionText:
    """Read a name, options as ``name=value``, and single words, with spaces between.

    Whether the name and the options exist, and have values that fit, is not looked at.

    Args:
        text: What to read; holds a name.
        kind: What it names, for messages.
        words: Those that may stand alone behind the name.

    Raises:
        UsageError: For a word that is neither an option nor one of ``words``, or an option given twice.
    """
    name, *others = text.split()
    options: dict[str, Value] = {}
    for word in others:
        key, equals, value = word.partition("=")
        if word in words:
            continue
        if not (equals and key and value):
            allowed = f"neither option=value nor {' nor '.join(words)}" if words else "no option=value"
            example = " ".join([name, "option=value", *words])
            raise UsageError(f'{kind} {text!r}: {word!r} is {allowed}; write for example "{example}"')
        if key in options:
            raise UsageError(f"{kind} {text!r}: {key} is given twice; give it once")
        options[key] = read_value(value)
    return OptionText(name, options, tuple(word for word in words if word in others))


def write_option_text(name: str, options: Mapping[str, Value], words: Sequence[str] = ()) -> str:
    """Write what ``parse_option_text`` reads; the same options always have the same text."""
    return " ".join([name, *(f"{key}={value}" for key, value in sorted(options.items())), *words])


def like(default: Value | None, value: Value) -> Value:
    """Return a number in the type of an option's default, where it has the same value there."""
    if not isinstance(default, int | float) or isinstance(value, str) or not is_finite(value):
        return value
    return type(default)(value) if type(default)(value) == value else value


def read_value(text: str) -> Value:
    """Read a whole number, else a number, else a text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def describe_options(name: str, options: Mapping[str, Option]) -> str:
    """List the options of one entry of a registry with their defaults."""
    if not options:
        return f"{name}: no options"
    lines = []
    for option_name, option in options.items():
        choices = f", one of {' '.join(option.choices)}" if option.choices else ""
        lines.append(f"  {option_name} = {option.default}: {option.help}{choices}")
    return "\n".join([f"{name}:", *lines])


LONGEST_NAME = 200
"""Leaves room for what is put before and behind it; file systems take 255 bytes."""
_NAME = re.compile(r"[^\W_][\w.+=@,%-]*")


def check_name(name: str) -> str:
    """Return the name of one folder.

    Raises:
        ValueError: If it is none, or would mean something to a shell or a file system.
    """
    if not _NAME.fullmatch(name) or len(name.encode()) > LONGEST_NAME:
        raise ValueError(
            f"{shown(name)} cannot name a folder; give letters, digits and . _ - + = @ , %, beginning with a "
            f"letter or digit, at most {LONGEST_NAME}, without '/'"
        )
    return name
