"""What files were when they were written, by size and checksum, and which of them are not so any more."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from base.files import sha256_once


@dataclass(frozen=True)
class FileState:
    """A file as it was when it was written; ``size`` in bytes."""

    size: int
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> FileState:
        """Return the state of a file with this content."""
        return cls(len(content), hashlib.sha256(content).hexdigest())


def file_states(folder: Path, paths: Iterable[Path]) -> dict[str, FileState]:
    """Return the state of files by their names below a folder."""
    return {
        path.relative_to(folder).as_posix(): FileState(path.stat().st_size, sha256_once(path))
        for path in paths
    }


def fingerprint(files: Iterable[tuple[str, str]]) -> str:
    """Return 16 hexadecimal digits for files by their names and checksums, wherever they lie."""
    digest = hashlib.sha256()
    for name, sha256 in files:
        digest.update(name.encode())
        digest.update(bytes.fromhex(sha256))
    return digest.hexdigest()[:16]


def damage(folder: Path, states: Mapping[str, FileState]) -> dict[str, str]:
    """Compare files with what they were.

    Args:
        folder: What the names are below.
        states: What the files were.

    Returns:
        By name what is wrong with a file, as in "has 12 bytes, and had 40"; empty where all is well.
    """
    found = {name: _wrong(folder / name, state) for name, state in states.items()}
    return {name: wrong for name, wrong in found.items() if wrong}


def _wrong(path: Path, state: FileState) -> str | None:
    try:
        size = path.stat().st_size
        if size != state.size:
            return f"has {size:,} bytes, and had {state.size:,}"
        if sha256_once(path) != state.sha256:
            return "has other content than when it was written"
    except (FileNotFoundError, NotADirectoryError):
        return "is gone"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None
