"""What a user may call a folder, and the name of the baseline that others are compared with."""

from __future__ import annotations

import re
from typing import Literal

from base.errors import shown

LONGEST_NAME = 200
"""Leaves room for what is put before and behind it; file systems take 255 bytes."""
_LONGEST_PART, _LONGEST_PATH = 255, 4000
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


def check_path(path: str) -> str:
    """Return the path of a folder.

    Raises:
        ValueError: If it is empty, longer than a file system takes, or holds a control character.
    """
    parts = path.split("/")
    too_long = len(path.encode()) > _LONGEST_PATH or max(len(part.encode()) for part in parts) > _LONGEST_PART
    if not path.strip() or not path.isprintable() or too_long:
        raise ValueError(
            f"{shown(path)} is no path of a folder; give one without control characters, of parts of at most "
            f"{_LONGEST_PART} bytes"
        )
    return path


BASELINE = "gelu"
"""What the families have without a swap; compared with unless a user names another."""

Budget = Literal["width", "params", "active-params", "flops"]
"""What is held equal: the width as given, the parameters, those that one token meets, or the FLOPs of its
forward pass."""
