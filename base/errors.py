"""Mistakes of a user, told in one line."""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable

from base.faults import describe, fault_of
from base.system import is_unread

FULL = 'pip install "ffn-ablations[torch]"'
EXTRA_PACKAGES = {
    "accelerate": "accelerate",
    "datasets": "datasets",
    "huggingface_hub": "huggingface-hub",
    "lm_eval": "lm-eval",
    "safetensors": "safetensors",
    "sklearn": "scikit-learn",
    "submitit": "submitit",
    "tokenizers": "tokenizers",
    "torch": "torch",
    "transformers": "transformers",
}
"""The distributions of the extra ``torch``, by what they are imported as."""
OTHERS_WAIT_S = 3.0
"""Seconds that the first of several processes has to tell an error that all of them meet."""


class UsageError(ValueError):
    """A user's mistake. The message says what was wrong, what is allowed and what to do next, in one line."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: IPython asks an error for it."""
        return [f"{type(self).__name__}: {self}"]


class WorldError(UsageError):
    """A full disk, a read-only mount and the like: no mistake, and once it is mended all goes on."""


class OccupiedError(UsageError):
    """Another process is at work where this one would write; whoever can wait may try again."""


class AbsentError(UsageError):
    """What does not ship is not there yet, and no mistake; a plan goes on without."""


_ENDLESS = re.compile(r"[^\s;,]{400,}")
LONGEST_SHOWN = 80
"""Characters of a user's value that a message repeats."""


def shown(value: object) -> str:
    """Return a value as a message repeats it: quoted, and cut where it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def first_line(error: BaseException) -> str:
    """Return the beginning of what an exception of another library says, for a message of one line."""
    return str(error).strip().split("\n")[0][:300]


def unknown_name(kind: str, name: object, available: Iterable[str]) -> UsageError:
    """Build the error for a name that does not exist, with the closest match and all that do exist.

    Args:
        kind: What was looked up, for example ``"FFN variant"``.
        name: The name as the user wrote it.
        available: Every name that would have been accepted.
    """
    names = list(available)
    close = difflib.get_close_matches(str(name)[:LONGEST_SHOWN], names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    return UsageError(f"unknown {kind} {shown(name)}{hint} Available: {', '.join(names)}")


def run_cli(main: Callable[[], int | None]) -> None:
    """Run a command's ``main`` and exit with its status.

    A ``UsageError``, a fault of the world (``base.faults``) or a package that only the full installation has
    becomes one line on standard error and exit status 2; anything else keeps its traceback,
    because it is a defect of this project and not of the user. Where whoever reads the output has gone, as
    ``head`` does, it ends without a word.
    """
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
        told = missing_extra(error) or as_usage_error(error)
        if not isinstance(told, UsageError | str):
            raise
        _tell(f"error: {told}")
        status = 2
    except KeyboardInterrupt:
        _tell("interrupted; the same command continues where it stopped")
        status = 130
    _drop_unwritten()
    sys.exit(status)


def missing_extra(error: BaseException) -> str | None:
    """Return what to tell of an import of a package that is not installed; None for any other error.

    A module that an installed package lacks, or one of this project, is no such error.
    """
    name = (getattr(error, "name", None) or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or name not in EXTRA_PACKAGES:
        return None
    if importlib.util.find_spec(name) is not None:
        return None
    return f"this needs {EXTRA_PACKAGES[name]}, which is not installed; {FULL} installs it"


def as_usage_error(error: Exception) -> Exception:
    """Return a fault of the world as an error with its one line, and any other exception as it is."""
    fault = None if isinstance(error, UsageError) else fault_of(error)
    return error if fault is None else WorldError(describe(fault))


def _tell(line: str) -> None:
    """Say why a command ends; of several processes that a launcher started, the first says it for all.

    What a user gave is repeated in many messages, and one word of thousands of characters hides the rest.
    """
    line = _ENDLESS.sub(lambda found: f"{found[0][: LONGEST_SHOWN - 3]}...", line)
    if os.environ.get("RANK", "0") != "0":
        time.sleep(OTHERS_WAIT_S)  # a launcher ends the others with the first, which is at the same line
    print(line, file=sys.stderr)


def _drop_unwritten() -> None:
    """Forget output that cannot be written, of which Python would tell again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
