"""Which machine this is: hosts are renamed, containers share names, and ids of processes are given anew."""

from __future__ import annotations

import socket
from functools import cache

import psutil

from base.system import boot_id, process_table


@cache
def this_machine() -> str:
    """Return what tells this boot of this machine, and its table of processes, from any other.

    Returns:
        The boot, a space, and the table of processes, of which every container has its own.
    """
    boot = boot_id() or f"{socket.gethostname()}-{int(psutil.boot_time())}"
    return f"{boot} {process_table()}"


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
