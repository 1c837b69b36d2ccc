"""Which code this is: the commit of its checkout, or what a study's copy was made of; imports no torch."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

from base.files import CODE_ROOT, SNAPSHOT
from base.records import peek_record


def git_state() -> dict[str, Any]:
    """Commit of this code's checkout, and whether tracked files are as in it; nulls outside git.

    A copy of the code that a study's jobs run has a record of what it was copied from, and of its files.
    """
    if (CODE_ROOT / SNAPSHOT).is_file():
        return copied_from(CODE_ROOT)
    # Files unknown to git lie in a checkout of something else, as an environment inside one does.
    commit = ask_git("rev-parse", "HEAD") if ask_git("ls-files", "base/files.py") else None
    changed = ask_git("status", "--porcelain", "--untracked-files=no") if commit else None
    return {"commit": commit, "clean": None if changed is None else not changed}


def ask_git(*command: str) -> str | None:
    """Ask git about this code; None outside a checkout or without git."""
    asked = ["git", "-C", str(CODE_ROOT), *command]
    try:
        return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


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
    return {"commit": record.get("commit"), "clean": record.get("clean") and is_as_copied(root)}


def is_as_copied(root: Path) -> bool:
    """Whether all files of a copy are as they were when it was made."""
    recorded = peek_record(root / SNAPSHOT).get("content")
    try:
        return recorded is not None and recorded == content_hash(root)
    except OSError:
        return False
