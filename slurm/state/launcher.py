"""The note that a command leaves which runs a study on this machine: for --cancel, and for its workers."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from base.progress import duration
from base.records import read_record, write_record
from pretrain.run.folders import StudyFolder
from pretrain.run.machine import is_here, this_machine
from slurm.state.life import beating, lives_here


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """A command that runs a study, or ran it when it was killed."""

    pid: int
    host: str
    machine: str = ""
    started_s: float
    report: bool = False
    """Whether it writes the report at the end."""
    silent_s: float = 0.0
    """Seconds since its last sign of life, as far as two machines' clocks agree."""

    @property
    def is_here(self) -> bool:
        """Whether it was started on this machine."""
        return is_here(self.machine, self.host)

    @property
    def is_dead(self) -> bool:
        """Whether it was started on this machine and has ended."""
        return self.is_here and not lives_here(self.pid, self.started_s)

    @property
    def words(self) -> str:
        """How long ago it was seen alive."""
        return f"last sign of life {duration(self.silent_s)} ago"


@contextmanager
def known_launcher(study_dir: Path, report: bool) -> Iterator[None]:
    """Leave a note of this process, whose SIGTERM ends its cells as Ctrl-C does."""
    note = StudyFolder(study_dir).launcher_file

    def stop(_signum: int, _frame: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    is_main = threading.current_thread() is threading.main_thread()  # Python allows handlers there alone
    before = signal.signal(signal.SIGTERM, stop) if is_main else None
    launcher = Launcher(
        pid=os.getpid(),
        host=socket.gethostname(),
        machine=this_machine(),
        started_s=time.time(),
        report=report,
    )
    write_record(note, launcher)
    try:
        with beating(note):
            yield
    finally:
        note.unlink(missing_ok=True)
        if is_main:
            signal.signal(signal.SIGTERM, before)


def read_note(study_dir: Path) -> Launcher | None:
    """Return the note of the command that runs a study or was killed while it did; None without one."""
    return read_record(StudyFolder(study_dir).launcher_file, Launcher)


def read_launcher(study_dir: Path) -> Launcher | None:
    """Return the command that runs a study locally; None where none does.

    One of another machine is returned with how long it has been silent.
    """
    note = read_note(study_dir)
    if note is None or note.is_dead:
        return None
    if note.is_here:
        return note
    modified_s = StudyFolder(study_dir).launcher_file.stat().st_mtime
    return replace(note, silent_s=max(0.0, time.time() - modified_s))
