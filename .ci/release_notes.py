"""Print what CHANGELOG.md says of a release: python .ci/release_notes.py v0.1.0.

Ends with status 2 where the tag is not that of the version in pyproject.toml and CITATION.cff, or where the
changelog has nothing of it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(tag: str, root: Path = ROOT) -> int:
    """Print the notes of a tag, or say in one line why there are none; returns the exit status."""
    version = tomllib.loads(read(root, "pyproject.toml"))["project"]["version"]
    cited = re.search(r"^version: (\S+)$", read(root, "CITATION.cff"), re.MULTILINE)
    notes = re.search(
        rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## |\Z)",
        read(root, "CHANGELOG.md"),
        re.DOTALL | re.MULTILINE,
    )
    if tag != f"v{version}":
        wrong = f"the tag is {tag} and the version in pyproject.toml {version}; make them agree"
    elif cited is None or cited[1] != version:
        wrong = f"CITATION.cff is not of version {version}; make them agree"
    elif notes is None or not notes[1].strip():
        wrong = f"CHANGELOG.md has no section [{version}]; rename [Unreleased] to it, with the date"
    else:
        print(notes[1].strip())
        return 0
    print(f"error: {wrong}", file=sys.stderr)
    return 2


def read(root: Path, name: str) -> str:
    """Return the text of a file."""
    return (root / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
