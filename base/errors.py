"""Mistakes of a user, and faults of the world such as a full disk, each told in one line.

Faults are no defects of this project, so no user sees a traceback for one. Libraries that are not written in
Python raise exceptions of their own for them, with the system's number in the text.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import importlib.util
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from base.device_errors import LACKS_OF_MEMORY, failure_of_device
from base.lazy_modules import defer_imports
from base.system import is_unread

FULL = 'pip install "ffn-ablations[torch]"'
EXTRA_PACKAGES = {"accelerate", "datasets", "huggingface_hub", "lm_eval", "safetensors", "sklearn"}
EXTRA_PACKAGES |= {"submitit", "tokenizers", "torch", "transformers"}
"""What is imported of the extra ``torch``."""


class UsageError(ValueError):
    """A user's mistake. The message says what was wrong, what is allowed and what to do next, in one line."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: IPython asks an error for it."""
        return [f"{type(self).__name__}: {self}"]


class WorldError(UsageError):
    """A full disk, a read-only mount and the like: no mistake, and once it is mended all goes on."""


class DeviceError(WorldError):
    """A GPU failed. What this process would still compute on it would fail as well; another may go on."""


class OccupiedError(UsageError):
    """Another process is at work where this one would write; whoever can wait may try again."""


class AbsentError(UsageError):
    """What does not ship is not there yet, and no mistake; a plan goes on without."""


Entry = TypeVar("Entry")
_ENDLESS = re.compile(r"[^\s;,]{400,}")
LONGEST_SHOWN = 80
"""Characters of a user's value that a message repeats."""


def shown(value: object) -> str:
    """Return a value as a message repeats it: quoted, and cut where it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def first_line(error: BaseException) -> str:
    """Return the beginning of what an exception of another library says, for a message of one line."""
    return str(error).strip().split("\n")[0][:200]


def unknown_name(kind: str, name: object, available: Iterable[str]) -> UsageError:
    """Build the error for a name that does not exist, with the closest match and all that do exist.

    Args:
        kind: What was looked up, for example ``"FFN variant"``.
        name: The name as the user wrote it.
        available: Every name that would have been accepted.
    """
    names = list(available)
    close = closest(str(name), names)
    hint = f"; did you mean {close!r}?" if close else ";"
    if (several := set(str(name).split(","))) <= {*names, ""} and len(several) > 1:
        hint = f" names several; write them apart: {str(name).replace(',', ' ').strip()};"
    return UsageError(f"unknown {kind} {shown(name)}{hint} Available: {', '.join(names)}")


def look_up(kind: str, name: str, table: Mapping[str, Entry]) -> Entry:
    """Return the entry of a registry.

    Raises:
        UsageError: If there is none of that name, as ``unknown_name`` words it.
    """
    if name not in table:
        raise unknown_name(kind, name, table)
    return table[name]


def closest(typed: str, names: Iterable[str]) -> str | None:
    """Return the name that somebody may have meant; None where none is like what was typed."""
    known = {name.lower(): name for name in names}
    word = typed[:LONGEST_SHOWN].lower()
    close = difflib.get_close_matches(word, known, n=9)
    swapped = [name for name in close if sorted(name) == sorted(word)]  # gleu: gelu rather than glu
    return next((known[name] for name in swapped + close), None)


@contextlib.contextmanager
def prefixed(place: str) -> Iterator[None]:
    """Begin the message of a user's mistake with where it is."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{place}{error}") from None


def unexpanded(path: object) -> str:
    """What else to say of a path that does not exist, where it is a pattern that no shell has read."""
    return "; a shell puts files for * only where it is not quoted, and some match" * ("*" in str(path))


def near_file(path: Path) -> str:
    """Ask for the file or folder that a path may mean: called nearly so, or with / for Windows' backslash."""
    typed, path = path, Path(str(path).replace("\\", "/"))
    wrong = next((x for x in reversed(path.parents) if not x.exists()), path)
    beside = [x.name for x in sorted(wrong.parent.glob("*")) if closest(wrong.stem, [x.stem])]
    close = closest(wrong.name, beside)
    meant = wrong.with_name(close or wrong.name) / path.relative_to(wrong)
    return f"did you mean {meant}? " if meant.exists() and meant != typed else ""


def did_you_mean(name: str | None, otherwise: str) -> str:
    """Ask for a name, if there is one like what was typed, or say something else."""
    return f"did you mean {name}?" if name else otherwise


def run_cli(main: Callable[[], int | None]) -> None:
    """Run a command's ``main`` and exit with its status.

    A ``UsageError``, a fault of the world (``base.errors``) or a package that only the full installation has
    becomes one line on standard error and exit status 2; anything else keeps its traceback,
    because it is a defect of this project and not of the user. Where whoever reads the output has gone, as
    ``head`` does, it ends without a word.
    """
    defer_imports()
    try:
        try:
            status = main() or 0
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        if not is_unread(sys.stdout):
            raise
        status = 128 + signal.SIGPIPE
    except Exception as error:
        mistake = missing_extra(error) or as_usage_error(error)
        if not isinstance(mistake, UsageError | str):
            raise
        _tell(f"error: {mistake}")
        status = 2
        if isinstance(mistake, DeviceError):  # torch would free what is on the GPU, fail, and print 40 lines
            _drop_unwritten()
            os._exit(status)
    except KeyboardInterrupt:
        _tell("interrupted; the same command continues where it stopped")
        status = 130
    _drop_unwritten()
    sys.exit(status)


def exit_status(errors: Iterable[Exception]) -> int:
    """Return a command's status by what went wrong: 0 for nothing, 2 for mistakes, 1 with a defect."""
    return min((1 + isinstance(error, UsageError) for error in errors), default=0)


def missing_extra(error: BaseException) -> str | None:
    """Return what to tell of an import of a package that is not installed; None for any other error.

    A module that an installed package lacks, or one of this project, is no such error.
    """
    name = (getattr(error, "name", None) or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or name not in EXTRA_PACKAGES:
        return None
    if importlib.util.find_spec(name) is not None:
        return None
    return f"this needs {name}, which is not installed; {FULL} installs it"


def as_usage_error(error: Exception) -> Exception:
    """Return a fault of the world as an error with its one line, and any other exception as it is."""
    if isinstance(error, UsageError):
        return error
    if fault := fault_of(error):
        return WorldError(describe(fault))
    if failure := failure_of_device(error):
        return UsageError(failure) if LACKS_OF_MEMORY.search(failure) else DeviceError(failure)
    return error


def _tell(line: str) -> None:
    """Say why a command ends.

    What a user gave is repeated in many messages, and one word of thousands of characters hides the rest.
    """
    line = _ENDLESS.sub(lambda match: f"{match[0][: LONGEST_SHOWN - 3]}...", line)
    print(line, file=sys.stderr)


def _drop_unwritten() -> None:
    """Forget output that cannot be written, of which Python would tell again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


FAULTS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
FAULTS |= {errno.ESTALE, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP}
FAULTS |= {errno.EMFILE, errno.ENFILE, errno.ENOLCK}
"""What is told in the system's own words, behind the path. All else may be a defect, and has a traceback."""
_SYSTEM_FOLDERS = ("/proc/", "/sys/")
"""Where the kernel says that a file is missing of one that it does not let anybody make."""
ADVICE = "mend that or name another place, then give the same command again"

_NUMBER = re.compile(r"\b(?:os error|errno) (\d+)\b", re.IGNORECASE)
_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
"""How numpy tells that a disk is full."""


def fault_of(error: BaseException) -> OSError | None:
    """Find the fault of the world that an exception tells of, itself or what it was raised from.

    Returns:
        It as Python's own exceptions tell it, with the path where that is known; None for anything else.
    """
    link: BaseException | None = error
    while link is not None:
        number = _number(link)
        # Of a file that was to get a new name, the new one.
        path = getattr(link, "filename2", None) or getattr(link, "filename", None)
        if number == errno.ENOENT and os.fsdecode(path or "").startswith(_SYSTEM_FOLDERS):
            return OSError(number, "nothing can be made there", path)
        if number in FAULTS and not (number == errno.EEXIST and (path is None or Path(path).is_dir())):
            return OSError(number, os.strerror(number), path)
        link = link.__cause__
    return None


def describe(fault: OSError) -> str:
    """Say in one line what is wrong and what to do."""
    path = "" if fault.filename is None else re.sub(r"\.tmp-\d+", "", os.fsdecode(fault.filename))
    place = f"{path[:100]}..." if fault.errno == errno.ENAMETOOLONG else path
    reason = fault.strerror
    if fault.errno == errno.EEXIST and os.path.islink(path) and not os.path.exists(path):
        reason = f"a link to {os.readlink(path)}, which does not exist"
    return f"{place}: {reason}; {ADVICE}".removeprefix(": ")


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
    match = _NUMBER.search(str(error))
    return int(match[1]) if match else None
