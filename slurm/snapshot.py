"""The copy of this project's code that jobs run, so that who edits on while they wait changes none of them.

<study>/code/0a1b2c3d4e5f/            the commit, where all is as committed
<study>/code/0a1b2c3d4e5f-9f8e7d6c/   with edits: the hash of the content tells two states apart
<study>/code/0a1b2c3d4e5f-9f8e7d6c.diff
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from base.files import CODE_ROOT, PACKAGES, SNAPSHOT, write_text
from base.records import set_aside, write_record
from base.run.folder_names import StudyFolder
from pretrain.run.code_version import ask_git, content_hash, is_as_copied

SUFFIXES = (".py", ".json", ".yaml", ".csv", ".css", ".html", ".mplstyle", ".bib", ".md")
"""Of the files that the packages consist of."""


def take_snapshot(study_dir: Path, variants: Mapping[str, bytes] | None = None) -> Path:
    """Copy the project's code into the study's folder, once for each state of the code.

    A copy that was edited or damaged since it was made is set aside, and made anew.

    Args:
        study_dir: The study's folder.
        variants: Files of the user's own variants, by their place in the copy.

    Returns:
        ``<study>/code/<commit>[-<hash of the content>]``, to be put first on PYTHONPATH.
    """
    # An environment inside a checkout of something else has no commit of its own.
    commit = (ask_git("rev-parse", "HEAD") if ask_git("ls-files", "base/files.py") else None) or ""
    is_clean = ask_git("status", "--porcelain", "--", *PACKAGES) == "" if commit else None
    copy = StudyFolder(study_dir).code_dir.resolve() / f"copy.tmp-{os.getpid()}"
    try:
        _write_files(copy, variants or {})
        digest = content_hash(copy)
        is_committed = is_clean and not variants
        folder = copy.with_name(commit[:12] if is_committed else f"{commit[:12] or 'code'}-{digest[:8]}")
        if folder.is_dir() and content_hash(folder) == digest and is_as_copied(folder):
            for cache in folder.rglob("__pycache__"):
                shutil.rmtree(cache, ignore_errors=True)
            return folder
        if commit and (diff := ask_git("diff", "HEAD", "--", *PACKAGES)):
            write_text(folder.with_name(f"{folder.name}.diff"), diff + "\n")
        write_record(copy / SNAPSHOT, {"commit": commit or None, "clean": is_clean, "content": digest})
        if folder.exists():
            set_aside(folder, "its files are not as they were copied")
        copy.replace(folder)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    return folder


def _write_files(copy: Path, variants: Mapping[str, bytes]) -> None:
    """Write the packages' files and those of the user's own variants."""
    paths = [path for package in PACKAGES for path in (CODE_ROOT / package).rglob("*")]
    files = {path.relative_to(CODE_ROOT): path.read_bytes() for path in paths if path.suffix in SUFFIXES}
    for place, content in {**files, **variants}.items():
        (copy / place).parent.mkdir(parents=True, exist_ok=True)
        (copy / place).write_bytes(content)


def snapshot_environment(folder: Path) -> dict[str, str]:
    """Return the variables with which Python runs the code of a snapshot.

    Jobs start where they were submitted, and ``python -m`` looks there first: PYTHONSAFEPATH forbids it.
    """
    others = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(folder), *([others] if others else [])])
    # Compiled files in the copy would be believed unread.
    return {"PYTHONPATH": path, "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def tell_of_edited_code() -> None:
    """Say so where the copy of the code that a job runs was edited."""
    if not is_as_copied(CODE_ROOT):
        print(f"the code in {CODE_ROOT} is not as it was submitted; provenance says so", flush=True)
