"""Which machine this is: hosts are renamed, containers share names, and ids of processes are given anew."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

import psutil


@cache
def this_machine() -> str:
    """Return what tells this boot of this machine, and its table of processes, from any other.

    Returns:
        The boot, a space, and the table of processes, of which every container has its own.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # no Linux
        return f"{socket.gethostname()}-{int(psutil.boot_time())} "


def is_here(machine: str, host: str) -> bool:
    """Whether a process' id can be asked for here.

    Args:
        machine: What ``this_machine`` said where it started; empty in files of older versions.
        host: The name of its host, which counts where there is nothing better.
    """
    return machine == this_machine() if machine else host == socket.gethostname()


def is_same_boot(machine: str, host: str) -> bool:
    """Whether a process' file locks are seen here, as in all containers of one machine.

    Args:
        machine: As of ``is_here``.
        host: As of ``is_here``.
    """
    if not machine:
        return host == socket.gethostname()
    return machine.split(" ")[0] == this_machine().split(" ")[0]
