"""For ``base.errors``: a mistake told in one line."""

from __future__ import annotations

from collections.abc import Iterable


class UsageError(ValueError):
    """A user's mistake; the message says what is allowed."""


def shown(value: object) -> str:
    """Return a value as a message repeats it."""
    return repr(value)


def first_line(error: BaseException) -> str:
    """Return the beginning of what an exception says."""
    return str(error).strip().split("\n")[0]


def unknown_name(kind: str, name: object, available: Iterable[str]) -> UsageError:
    """Build the error for a name that does not exist."""
    return UsageError(f"unknown {kind} {name!r}; there are: {', '.join(available)}")
