"""Whether the process that has a cell is alive: here by its process, elsewhere by its signs of life.

A worker touches its cell's state file every few seconds. Where the machine was renamed, or the folder now
lies on another one, nobody can ask for the process: whoever wants the cell then watches for a while whether
any of the cell's files changes. Clocks are not compared for that.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from pretrain.run.folders import StudyFolder
from pretrain.run.lock import BEAT_S, PATIENCE_S


def lives_here(pid: int, started_s: float) -> bool:
    """Whether a process of this machine runs, and its id was not given to another since ``started_s``."""
    try:
        process = psutil.Process(pid)
        # A killed process whose parent does not collect it still has an entry.
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= started_s
    except (psutil.Error, ValueError, OverflowError):
        return False


@contextlib.contextmanager
def beating(file: Path) -> Iterator[None]:
    """Touch a file every ``BEAT_S`` seconds inside the block, which a full disk does not forbid."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_S):
            with contextlib.suppress(OSError):
                os.utime(file)

    thread = threading.Thread(target=beat, name="sign-of-life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def silence_s(study_dir: Path, run_id: str) -> float:
    """Seconds since a cell's last sign of life, as far as two machines' clocks agree."""
    return max(0.0, time.time() - max(_signs(study_dir, run_id), default=0) / 1e9)


def watch(study_dir: Path, run_ids: Iterable[str]) -> list[str]:
    """Watch cells for up to ``PATIENCE_S`` seconds; returns those without any sign of life."""
    before = {run_id: _signs(study_dir, run_id) for run_id in run_ids}
    until = time.monotonic() + PATIENCE_S
    while before and time.monotonic() < until:
        time.sleep(min(1.0, PATIENCE_S / 10))
        before = {run_id: signs for run_id, signs in before.items() if _signs(study_dir, run_id) == signs}
    return list(before)


def _signs(study_dir: Path, run_id: str) -> tuple[int, ...]:
    """When each file changed last that a worker changes; older versions do not touch the first."""
    run = StudyFolder(study_dir).run(run_id)
    state_file = StudyFolder(study_dir).cell_file(run_id)
    files = (state_file, run.holder_file, run.metrics_file, run.ledger_file)
    return tuple(_modified_ns(file) for file in files)


def _modified_ns(file: Path) -> int:
    """When a file changed last; 0 if there is none. Opening it makes network file systems ask the server."""
    try:
        with file.open("rb") as opened:
            return os.fstat(opened.fileno()).st_mtime_ns
    except OSError:
        return 0
