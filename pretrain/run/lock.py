"""One process at a time in a run folder, on one host or on several that share the file system.

Two guards, because neither is enough. The system's file lock is exact on one host and is released with its
holder, however that dies; but some network file systems keep it to the host that took it. So the holder also
rewrites a small file every few seconds, and another host waits until it has seen that file rest. Whoever
finds another's name there, because both began at once or because it slept meanwhile, stops as on SIGTERM.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from base.errors import OccupiedError
from base.files import remove_leftovers, write_text
from base.json_text import parse_json
from pretrain.run.folders import RunFolder
from pretrain.run.machine import is_here, is_same_boot, this_machine

BEAT_S = 5.0
"""Seconds between two signs of life of a holder."""

PATIENCE_S = 60.0
"""Seconds without one after which a holder on another host is taken for dead. Clocks are not compared."""


@contextlib.contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Keep a second process out of a run folder, and take over from one that is dead.

    Args:
        path: The folder; made if need be.

    Raises:
        OccupiedError: If another process trains in this folder.
    """
    path.mkdir(parents=True, exist_ok=True)
    folder = RunFolder(path)
    lock, holder_file = FileLock(folder.lock_file), folder.holder_file
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise _occupied(path, _read(holder_file)) from None
    try:
        _check_dead(path, holder_file)
        remove_leftovers(path)
        ended = threading.Event()
        beating = threading.Thread(target=_beat, args=(holder_file, ended), name="sole-writer", daemon=True)
        _write(holder_file, 0)
        beating.start()
        try:
            yield
        finally:
            ended.set()
            beating.join()
            if _is_own(_read(holder_file)):
                holder_file.unlink(missing_ok=True)
    finally:
        lock.release()


def _check_dead(path: Path, holder_file: Path) -> None:
    """Make sure that whoever left its name here is gone; holding the lock proves it for this host only."""
    holder = _read(holder_file)
    if holder is None:
        return
    name = f"process {holder['pid']} on {holder['host']}"
    if not is_same_boot(str(holder.get("machine", "")), holder["host"]):
        print(f"{path}: {name} was here; waiting up to {PATIENCE_S:.0f} s for a sign of life", flush=True)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            time.sleep(min(1.0, PATIENCE_S / 10))
            now = _read(holder_file)
            if now is None:  # it ended by itself
                return
            if now != holder:
                raise _occupied(path, now)
    print(f"{path}: {name} ended without a word; this process takes over", flush=True)


def _beat(holder_file: Path, ended: threading.Event) -> None:
    count = 0
    while not ended.wait(BEAT_S):
        holder = _read(holder_file)
        if holder and not _is_own(holder):
            print(f"{_occupied(holder_file.parent, holder)}; this one stops", flush=True)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        count += 1
        with contextlib.suppress(OSError):  # a full disk; the system's lock still holds
            _write(holder_file, count)


def _write(holder_file: Path, count: int) -> None:
    own = {"pid": os.getpid(), "host": socket.gethostname(), "machine": this_machine(), "beat": count}
    write_text(holder_file, json.dumps(own))


def _read(holder_file: Path) -> dict[str, Any] | None:
    try:
        holder = parse_json(holder_file.read_bytes())
        return holder if {"pid", "host"} <= holder.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def _is_own(holder: dict[str, Any] | None) -> bool:
    if holder is None or holder["pid"] != os.getpid():
        return False
    return is_here(str(holder.get("machine", "")), holder["host"])


def _occupied(path: Path, holder: dict[str, Any] | None) -> OccupiedError:
    who = f" ({holder['pid']} on {holder['host']})" if holder else ""
    return OccupiedError(f"{path}: another process{who} trains in this folder; wait for it or stop it")
