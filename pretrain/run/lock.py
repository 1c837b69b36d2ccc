"""One process at a time writes into a run's folder: the system releases its lock when it ends, however."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from base.errors import OccupiedError
from base.files import remove_leftovers, sole_holder
from base.records import peek_record, write_record
from base.run.folders import RunFolder


@dataclass(frozen=True)
class Holder:
    """The process that writes into a run's folder."""

    pid: int
    host: str


@contextlib.contextmanager
def sole_writer(path: Path, work: str = "trains in") -> Iterator[None]:
    """Keep a second process out of a run folder, and remove what a killed one left of its files.

    Args:
        path: The folder; made if need be.
        work: What is done to it, as another process is told.

    Raises:
        OccupiedError: If another process writes into this folder.
    """
    run = RunFolder(path)
    known = _read(run)
    who = f" ({known.pid} on {known.host})" if known else ""
    occupied = OccupiedError(
        f"{path}: another process{who} {work} this folder; wait for it or stop it; if there is none, remove "
        f"{run.lock_file}"
    )
    with sole_holder(run.lock_file, occupied):
        for folder in (path, run.eval_dir, run.items_dir):
            remove_leftovers(folder)
        with contextlib.suppress(OSError):  # who it is only makes the message better
            write_record(run.holder_file, Holder(os.getpid(), socket.gethostname()))
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                run.holder_file.unlink(missing_ok=True)


def _read(run: RunFolder) -> Holder | None:
    found = peek_record(run.holder_file)
    pid, host = found.get("pid"), found.get("host")
    return Holder(pid, host) if isinstance(pid, int) and isinstance(host, str) else None
