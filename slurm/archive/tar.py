"""Files of several runs in one compressed file, the same bytes for the same runs; read as data alone."""

from __future__ import annotations

import io
import lzma
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

from base.errors import UsageError
from base.files import write_atomically

SUFFIX = ".tar.xz"
LONGEST = 100
"""Letters of a name, which every kind of tar can hold."""
LARGEST = 256 * 2**20
"""Bytes of all files of an archive together: a few small tables for each run are far below."""
_NAME = re.compile(r"[\w.=%@-][\w.=%@,+ -]*")
"""A part of a file's name: no separator, and no space or sign in front."""

Files = Mapping[str, bytes]
"""By the name below a run's folder, what is in a file."""


def write_tar(path: Path, runs: Mapping[str, Files]) -> bool:
    """Write files of runs, unless the same stand there already.

    Args:
        path: The archive.
        runs: By the name of a run's folder, its files.

    Returns:
        Whether anything was written.

    Raises:
        UsageError: For a name or a size that ``read_tar`` would refuse; nothing is written then.
    """
    files = {f"{run}/{name}": content for run, own in runs.items() for name, content in own.items()}
    # Another version of the compressor writes other bytes for the same content.
    if path.is_file() and _is_same(path, runs):
        return False
    if odd := [name for name in files if not all(map(_is_plain, name.split("/"))) or len(name) > LONGEST]:
        raise UsageError(f"{path} cannot hold {odd[0]!r}: {LONGEST} letters, digits and .=%@,+- are allowed")
    if sum(map(len, files.values())) > LARGEST // 2:
        raise UsageError(f"{path} would hold more than {LARGEST // 2**21} MiB; archive fewer runs at once")
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            member = tarfile.TarInfo(name)  # of nobody, and of no time
            member.size = len(files[name])
            tar.addfile(member, io.BytesIO(files[name]))
    content = lzma.compress(stream.getvalue(), preset=9)
    write_atomically(path, lambda temporary: temporary.write_bytes(content))
    return True


def read_tar(path: Path) -> dict[str, dict[str, bytes]]:
    """Read files of runs, by the name of a run's folder; nothing is written.

    Raises:
        UsageError: For a file that is no such archive, is cut off, or holds what no run has: a link, a name
            that leads elsewhere, more than ``LARGEST``.
    """
    if not path.is_file():
        raise UsageError(f"{path} is no file; fetch it anew")
    try:
        with lzma.open(path) as stream:
            content = stream.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise UsageError(f"{path} holds more than {LARGEST // 2**20} MiB; it is no archive of runs")
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
            return _runs(path, tar)
    except (lzma.LZMAError, tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{path} is damaged, or no archive of runs ({error}); fetch it anew") from None


def _runs(path: Path, tar: tarfile.TarFile) -> dict[str, dict[str, bytes]]:
    runs: dict[str, dict[str, bytes]] = {}
    for member in tar:
        run, _, name = member.name.partition("/")
        parts = [run, *name.split("/")]
        # A sparse file may be of any size, whatever the archive's is.
        is_plain_file = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse()
        stream = tar.extractfile(member) if is_plain_file else None
        if stream is None or not all(map(_is_plain, parts)) or len(member.name) > LONGEST:
            raise UsageError(
                f"{path} holds {member.name[:LONGEST]!r}, which no run has; it is no archive of runs"
            )
        runs.setdefault(run, {})[name] = stream.read()
    return runs


def is_run_id(text: str) -> bool:
    """Whether a text may be the id of a run: ``<family>/<variant>/<run>``, each the name of a folder."""
    return text.count("/") == 2 and len(text) <= LONGEST and all(map(_is_plain, text.split("/")))


def _is_plain(part: str) -> bool:
    return _NAME.fullmatch(part) is not None and part not in (".", "..")


def _is_same(path: Path, runs: Mapping[str, Files]) -> bool:
    try:
        return read_tar(path) == {run: dict(files) for run, files in runs.items()}
    except UsageError:
        return False
