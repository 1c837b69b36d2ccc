"""What Linux and macOS do differently, in one place. macOS was simulated in tests; nothing was run on it."""

from __future__ import annotations

import fcntl
import os
import resource
import select
import shutil
import signal
import sys
from pathlib import Path
from typing import TextIO

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""By which a scheduler or a user asks a process to stop."""


def num_cores() -> int:
    """Return the cores that this process may use, which on macOS are all that there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_memory_mb() -> float:
    """Return the largest memory that this process had so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # macOS counts bytes, Linux KiB


def cpu_fact(name: str) -> str:
    """Return what Linux lists of the CPU under a name, as ``model name``; empty elsewhere."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
    facts = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in facts if key.strip() == name), "")


def multiplies_bf16() -> bool:
    """Whether the CPU has instructions that multiply in bf16, which is then faster than in float32."""
    return bool({"avx512_bf16", "amx_bf16"} & set(cpu_fact("flags").split()))


def cpp_compiler() -> str:
    """Return the C++ compiler that torch compiles with on a CPU, as it looks for it; empty without one."""
    name = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    return name if shutil.which(name) else ""


def is_unread(stream: TextIO) -> bool:
    """Whether the reader of a pipe has gone; false for what is no pipe."""
    poll = select.poll()
    # Linux tells errors whatever is asked for; macOS none where nothing is.
    poll.register(stream, select.POLLOUT)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def is_locked(file: Path) -> bool:
    """Whether a process holds a file's lock, which the system releases however that one dies.

    Nothing is written, and no permission to write is needed. False where there is no file, or no locks.
    """
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
