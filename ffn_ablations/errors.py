"""What ends a command, as an error that a script or a notebook can catch."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from contextlib import contextmanager

from base.errors import UsageError, as_usage_error, missing_extra, shown
from base.printing import is_notebook


@contextmanager
def told() -> Iterator[None]:
    """Raise a user's mistake, a fault of the world or a stop signal as one ``UsageError``; a decorator, too.

    A defect of this project keeps its own type and traceback. So does Ctrl-C.
    """
    try:
        yield
    except UsageError:
        raise
    except SystemExit as end:  # a run that was told to stop by a signal, after its checkpoint
        words = str(end)
        raise UsageError(
            words if " " in words else "told to stop; the same call goes on from there"
        ) from None
    except Exception as error:
        lacks = missing_extra(error)
        mistake = UsageError(lacks) if lacks else as_usage_error(error)
        if mistake is error:
            raise
        raise mistake from None


@contextmanager
def brief_in_notebooks() -> Iterator[None]:
    """In a notebook show bars, notes and errors alone: what a command prints besides is in the objects."""
    with contextlib.redirect_stdout(io.StringIO()) if is_notebook() else contextlib.nullcontext():
        yield


def named(value: object) -> str:
    """Return a value as a message repeats it; of one that takes several lines, what it is."""
    return f"a {type(value).__name__}" if "\n" in repr(value) else shown(value)
