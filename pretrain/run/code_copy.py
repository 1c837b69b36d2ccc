"""Whether a copy of this project's code, which a study's jobs run, is as it was when it was made."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from base.files import SNAPSHOT
from base.records import peek_record


def content_hash(root: Path) -> str:
    """Return the SHA-256 over the names and contents of all files of a copy but its record, caches apart.

    Files that somebody added count too: Python would import them.
    """
    content = hashlib.sha256()
    files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    for path in sorted(files):
        if path != root / SNAPSHOT:
            content.update(str(path.relative_to(root)).encode() + b"\0")
            content.update(hashlib.sha256(path.read_bytes()).digest())
    return content.hexdigest()


def copied_from(root: Path) -> dict[str, Any]:
    """Return what a copy was made of: ``commit``, and whether the copy is ``clean``; nulls if it is unknown.

    A copy that was edited since is not clean.
    """
    record = peek_record(root / SNAPSHOT)
    clean = record.get("clean")
    if record and not is_as_copied(root):
        clean = False
    return {"commit": record.get("commit"), "clean": clean}


def is_as_copied(root: Path) -> bool:
    """Whether all files of a copy are as they were when it was made."""
    recorded = peek_record(root / SNAPSHOT).get("content")
    try:
        return recorded is not None and recorded == content_hash(root)
    except OSError:
        return False
