"""The code as it was submitted: queued jobs run a copy, whatever is edited meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from base.files import CODE_ROOT, PACKAGES, SNAPSHOT, write_text
from base.records import set_aside, write_record
from base.run.folders import StudyFolder
from pretrain.run.provenance import content_hash, is_as_copied

SUFFIXES = (".py", ".yaml", ".csv", ".css", ".bib", ".md")
"""Of the files that the packages consist of."""


def take_snapshot(study_dir: Path, own: Mapping[str, bytes] | None = None) -> Path:
    """Copy the project's code into the study's folder, once for each state of the code.

    Beside the copy, ``<name>.diff`` holds what differs from the commit, untracked files apart. A copy that
    was edited or damaged since it was made is set aside, and made anew.

    Args:
        study_dir: The study's folder.
        own: Files of the user's own variants, by their place in the copy.

    Returns:
        ``<study>/code/<commit>[-<hash of the changes>]``, to be put first on PYTHONPATH.
    """
    root = CODE_ROOT
    files = sorted(
        path for package in PACKAGES for path in (root / package).rglob("*") if path.suffix in SUFFIXES
    )
    # An environment inside a checkout of something else has no commit of its own.
    is_checkout = bool(_git(root, "ls-files", "base/files.py"))
    commit = _git(root, "rev-parse", "HEAD") if is_checkout else ""
    diff = _git(root, "diff", "HEAD", "--", *PACKAGES) if is_checkout else ""
    is_clean = bool(commit) and not _git(root, "status", "--porcelain", "--", *PACKAGES)
    copy = StudyFolder(study_dir).code_dir.resolve() / f"copy.tmp-{os.getpid()}"
    try:
        for path in files:
            target = copy / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        for place, text in (own or {}).items():
            (copy / place).parent.mkdir(parents=True, exist_ok=True)
            (copy / place).write_bytes(text)
        content = content_hash(copy)
        name = commit[:12] if commit and is_clean and not own else f"{commit[:12] or 'code'}-{content[:8]}"
        folder = copy.with_name(name)
        if folder.is_dir() and content_hash(folder) == content and is_as_copied(folder):
            for cache in folder.rglob("__pycache__"):
                shutil.rmtree(cache, ignore_errors=True)
            return folder
        if diff:
            write_text(folder.with_name(f"{name}.diff"), diff + "\n")
        clean = is_clean if commit else None
        write_record(copy / SNAPSHOT, {"commit": commit or None, "clean": clean, "content": content})
        if folder.exists():
            set_aside(folder, "its files are not as they were copied")
        copy.replace(folder)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    return folder


def snapshot_environment(folder: Path) -> dict[str, str]:
    """Return the variables with which Python runs the code of a snapshot.

    Jobs start where they were submitted, and ``python -m`` looks there first: PYTHONSAFEPATH forbids it.
    """
    others = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(folder), *([others] if others else [])])
    # Compiled files in the copy would be believed unread.
    return {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def _git(root: Path, *command: str) -> str:
    """Ask git; empty outside a checkout or without git."""
    try:
        done = subprocess.run(["git", "-C", str(root), *command], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
