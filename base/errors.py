"""Mistakes of a user, told in one line."""

from __future__ import annotations

import difflib
import errno
import os
import select
import signal
import sys
from collections.abc import Callable, Iterable
from typing import TextIO


class UsageError(ValueError):
    """A user's mistake. The message says what was wrong, what is allowed and what to do next, in one line."""


class OccupiedError(UsageError):
    """Another process is at work where this one would write; whoever can wait may try again."""


def unknown_name(kind: str, name: object, available: Iterable[str]) -> UsageError:
    """Build the error for a name that does not exist, with the closest match and all that do exist.

    Args:
        kind: What was looked up, for example ``"FFN variant"``.
        name: The name as the user wrote it.
        available: Every name that would have been accepted.
    """
    names = list(available)
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    return UsageError(f"unknown {kind} {name!r}{hint} Available: {', '.join(names)}")


def run_cli(main: Callable[[], int | None]) -> None:
    """Run a command's ``main`` and exit with its status.

    A ``UsageError`` becomes one line on standard error and exit status 2; anything else keeps its traceback,
    because it is a defect of this project and not of the user. Where whoever reads the output has gone, as
    ``head`` does, it ends without a word.
    """
    try:
        try:
            status = main() or 0
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        if not _is_unread(sys.stdout):
            raise
        # Python flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 128 + signal.SIGPIPE
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        status = 2
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        print(f"error: {str(error.filename)[:100]}...: too long for the name of a file", file=sys.stderr)
        status = 2
    except KeyboardInterrupt:
        print("interrupted; the same command continues where it stopped", file=sys.stderr)
        status = 130
    sys.exit(status)


def _is_unread(stream: TextIO) -> bool:
    """Whether the reader of a pipe has gone; false for what is no pipe."""
    poll = select.poll()
    poll.register(stream, 0)  # errors are told whatever is asked for
    return bool(poll.poll(0))
