"""Command lines: flags read by tyro into typed arguments, and mistakes in them told in one line."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import tyro
from pydantic import BaseModel, ConfigDict, ValidationError

from base.errors import UsageError, unknown_name

Arguments = TypeVar("Arguments")


class Section(BaseModel):
    """A part of a configuration: immutable, and closed to keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


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
    args = list(sys.argv[1:] if args is None else args)
    # `default=None` would be a default too.
    given: dict[str, Any] = {} if default is None else {"default": default}
    if {"-h", "--help"} & set(args):
        return tyro.cli(kind, args=args, prog=prog, description=description, **given)
    printed = io.StringIO()
    try:
        # tyro draws a box as wide as the terminal; in a wide one long names stay whole.
        with _columns(2000), contextlib.redirect_stderr(printed):
            return tyro.cli(kind, args=args, prog=prog, **given)
    except SystemExit:
        raise _explain(printed.getvalue()) from None
    except ValidationError as error:  # of a section without a prefix, which tyro does not catch
        first = error.errors()[0]
        flag = ".".join(map(str, first["loc"])).replace("_", "-")
        raise UsageError(f"--{flag}: {first['msg']} (is {first['input']!r})") from None


def _explain(box: str) -> UsageError:
    """Tell the content of tyro's error box in one line."""
    # Where the terminal knows no frames, there are dashes below the title and between the parts.
    lines = re.sub(r"╭.*╮|\A.*\n *-{20,}|[─-]{20,}", "", box)
    text = " ".join(re.sub(r"[│╭╮╰╯]", " ", lines).split())
    text = re.split(r" Argument helptext:| For full helptext", text)[0]
    if unknown := re.match(r"Unrecognized options: ([^ ,]+)", text):
        close = re.search(r"Perhaps you meant: (--[^ ,]+)", text)
        hint = f"did you mean {close[1]}?" if close else "--help lists all flags"
        return UsageError(f"unknown flag {unknown[1]}, {hint}")
    if choice := re.match(r"invalid choice '(.*)' for argument '(\S+)'\. Expected one of \((.*)\)", text):
        flag = choice[2].split("/")[-1]
        return unknown_name(f"value of {flag}:", choice[1], re.findall(r"'([^']*)'", choice[3]))
    if missing := re.match(r"Missing from .*?: (\S+) (.*)\(required\)", text):
        return UsageError(f"{missing[1]} is missing: {missing[2].strip()} --help says more")
    return UsageError(_explain_value(text))


def _explain_value(text: str) -> str:
    """Tell what is wrong with a value; pydantic's part of the message has a form of its own."""
    pattern = (
        r"Error parsing (?P<section>\S*): \d+ validation errors? for \w+ (?P<message>.*?)"
        r"( \[type=(?P<rest>.*)|$)"
    )
    if not (invalid := re.match(pattern, text)):
        return f"{text.removeprefix('Error parsing ')}; --help says what is allowed"
    if invalid["message"].startswith("Value error, "):  # a rule over several fields, which names them itself
        return invalid["message"].removeprefix("Value error, ")
    field, _, message = invalid["message"].partition(" ")
    given = re.search(r"input_value=(.*), input_type", invalid["rest"] or "")
    shown = f" (is {given[1]})" if given and "Value error" not in message else ""
    # A class name stands for the whole; "config" is a section whose flags carry no prefix.
    section = f"{invalid['section']}.".removeprefix("config.") if invalid["section"].islower() else ""
    return f"--{section}{field}".replace("_", "-") + f": {message.removeprefix('Value error, ')}{shown}"


@contextlib.contextmanager
def _columns(width: int) -> Iterator[None]:
    """Pretend that the terminal has this many columns."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
