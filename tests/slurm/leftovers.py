"""Finding and ending the processes of a throw-away SLURM, whatever became of whoever started it."""

import contextlib
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

DAEMONS = ("munged", "slurmctld", "slurmscriptd", "slurmd", "slurmstepd")


def processes_of(conf: Path) -> Iterator[tuple[psutil.Process, dict[str, str]]]:
    """The daemons and the processes inside jobs of one cluster, with their environments.

    They are known by the slurm.conf in their environment. A shell that exports it too is not among them.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            variables = process.environ()
            # A dead process that its parent has not collected yet is none.
            if variables.get("SLURM_CONF") != str(conf) or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if "SLURM_JOB_ID" in variables or process.name().startswith(DAEMONS):
                yield process, variables


def kill(processes: list[psutil.Process]) -> None:
    """Kill processes and give them a second to be gone."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=1)


def reap(conf: Path) -> None:
    """Wait until whoever started this is gone or says so, then kill what is left of the cluster."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    sys.stdin.buffer.read()
    # A step may start another process while it is looked for, so look again until none is found.
    for _ in range(20):
        left = [process for process, _ in processes_of(conf)]
        if not left:
            break
        kill(left)
    shutil.rmtree(conf.parent, ignore_errors=True)


def parent_of(process: psutil.Process) -> psutil.Process | None:
    """A process' parent; None if either is gone."""
    with contextlib.suppress(psutil.Error):
        return process.parent()
    return None


def is_step(process: psutil.Process) -> bool:
    """Whether a process is the one by which SLURM runs a job on a node."""
    with contextlib.suppress(psutil.Error):
        return process.name().startswith("slurmstepd")
    return False


if __name__ == "__main__":
    reap(Path(sys.argv[1]))
