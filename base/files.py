"""Writing files whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from base.errors import naming

CODE_ROOT = Path(__file__).resolve().parents[1]
"""The folder that holds this project's packages: a checkout, a copy of one, or site-packages."""
PACKAGES = (
    "base",
    "ffn_variants",
    "pretrain",
    "scores",
    "eval",
    "report",
    "inside",
    "slurm",
    "ffn_ablations",
)
"""This project's packages."""
SNAPSHOT = "SNAPSHOT.json"
"""In a copy of this project's code: what it was copied from."""

ASKING_S = 0.5
"""Seconds within which whoever asks whether a lock is held has let it go."""
ABANDONED_S = 24 * 3600.0
"""Seconds after which nobody can still be writing a temporary file."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then give it its name.

    A reader sees the old file or the new one, never a half-written one.

    Raises:
        OSError: For a fault of the world, with the path, whichever library met it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        with naming(path):
            write(temporary)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(folder: Path, older_than_s: float = 0.0, names: str = "*.tmp-*") -> None:
    """Remove what killed processes left of what they wrote aside, files and folders.

    Args:
        folder: Where it lies; not below it.
        older_than_s: ``ABANDONED_S`` where others may be writing, on this host or another; a name has the
            number of its process, but not the host. 0 where the caller alone may write.
        names: What such names match.
    """
    for leftover in folder.glob(names):
        with contextlib.suppress(OSError):  # another removes it too, or nothing may be written here
            if time.time() - leftover.stat().st_mtime < older_than_s:
                continue
            if leftover.is_dir():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()


def sha256_of(path: Path) -> str:
    """Return the checksum of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_once(path: Path) -> str:
    """Return the same, reading a file that nobody has touched only once in a process."""
    state = path.stat()
    return _sha256_of_state(path.absolute(), state.st_size, state.st_mtime_ns, state.st_ino)


@lru_cache(maxsize=2**16)
def _sha256_of_state(path: Path, *_state: int) -> str:
    return sha256_of(path)


def write_text(path: Path, text: str) -> None:
    """Replace a text file in one step."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def mapping(value: object) -> dict[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


@contextmanager
def sole_holder(lock_file: Path, occupied: Exception, patience_s: float = ASKING_S) -> Iterator[None]:
    """Hold a lock inside the block, which the system releases with its holder, however that dies.

    Args:
        lock_file: Made with its folder if need be.
        occupied: Raised if another process holds the lock for longer than ``patience_s``.
        patience_s: Seconds; by default as long as it takes to ask whether one does.

    Raises:
        OSError: If the file system has no locks.
    """
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(lock_file)
    try:
        lock.acquire(timeout=patience_s, poll_interval=min(1.0, patience_s / 10))
    except Timeout:
        raise occupied from None
    except NotImplementedError:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), str(lock_file)) from None
    try:
        yield
    finally:
        lock.release()


@dataclass(frozen=True)
class FileState:
    """A file as it was when it was written; ``size`` in bytes."""

    size: int
    sha256: str


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
    problems = {name: _problem(folder / name, state) for name, state in states.items()}
    return {name: problem for name, problem in problems.items() if problem}


def _problem(path: Path, state: FileState) -> str | None:
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
