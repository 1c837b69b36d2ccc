"""Faults of the world: a full disk, a read-only mount, a file that may not be read, each in one line.

They are no defects of this project, so no user sees a traceback for one. Libraries that are not written in
Python raise exceptions of their own for them, with the system's number in the text.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

FAULTS = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO),
        *(errno.ESTALE, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP),
        *(errno.EMFILE, errno.ENFILE, errno.ENOLCK),
    }
)
"""What is told in the system's own words, behind the path. All else may be a defect, and has a traceback."""
ADVICE = "mend that or name another place, then give the same command again"

_NUMBER = re.compile(r"\b(?:os error|errno) (\d+)\b", re.IGNORECASE)
_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
"""How numpy tells that a disk is full."""


def fault_of(error: BaseException) -> OSError | None:
    """Find the fault of the world that an exception tells of, itself or what it was raised from.

    Returns:
        It as Python's own exceptions tell it, with the path where that is known; None for anything else.
    """
    seen: BaseException | None = error
    while seen is not None:
        number = _number(seen)
        # Of a file that was to get a new name, the new one.
        path = getattr(seen, "filename2", None) or getattr(seen, "filename", None)
        if number in FAULTS and not (number == errno.EEXIST and (path is None or Path(path).is_dir())):
            return OSError(number, os.strerror(number), path)
        seen = seen.__cause__
    return None


def describe(fault: OSError) -> str:
    """Say in one line what is wrong and what to do."""
    path = "" if fault.filename is None else re.sub(r"\.tmp-\d+", "", os.fsdecode(fault.filename))
    shown = f"{path[:100]}..." if fault.errno == errno.ENAMETOOLONG else path
    return f"{shown}: {fault.strerror}; {ADVICE}".removeprefix(": ")


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the path to a fault that does not know its own, as one of a write does not.

    Raises:
        OSError: For any fault of the world, whoever's exception told of it.
    """
    try:
        yield
    except Exception as error:
        fault = fault_of(error)
        if fault is None or isinstance(error, ValueError):  # a user's mistake has a line of its own
            raise
        raise OSError(fault.errno, fault.strerror, fault.filename or str(path)) from error


def _number(error: BaseException) -> int | None:
    """The system's number of an error, from its text where it has no other."""
    number = getattr(error, "errno", None)
    if isinstance(number, int):
        return number
    if _SHORT_WRITE.search(str(error)):
        return errno.ENOSPC
    found = _NUMBER.search(str(error))
    return int(found[1]) if found else None
