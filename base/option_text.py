"""A name with options as users write it: ``kan grid_size=3``, ``swipe pooling=max frozen``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from base.errors import UsageError
from base.options import is_finite

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
    name, *rest = text.split()
    options: dict[str, Value] = {}
    for word in rest:
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
    return OptionText(name, options, tuple(word for word in words if word in rest))


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
