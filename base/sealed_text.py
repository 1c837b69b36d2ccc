"""Text files for people that a program wrote: a comment in their last line is the checksum of the others."""

from __future__ import annotations

import hashlib
from pathlib import Path

HEADER = "# Written by a command; its last line is the checksum of the others.\n"
_SEAL = "# sha256 "


def sealed_text(text: str) -> str:
    """Frame a text, whose comments begin with ``#``, in a first line that says so and its checksum."""
    body = f"{HEADER}{text}" if text.endswith("\n") else f"{HEADER}{text}\n"
    return f"{body}{_SEAL}{_checksum(body)}\n"


def is_as_written(text: str) -> bool:
    """Whether a text is as ``sealed_text`` left it; true as well for one that it never framed."""
    body, mark, given = text.rpartition(_SEAL)
    if mark:
        return given == f"{_checksum(body)}\n"
    return not text.startswith(HEADER)


def is_file_as_written(path: Path) -> bool:
    """Whether a file is as ``sealed_text`` left it; not where it cannot be read."""
    try:
        return is_as_written(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return False


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
