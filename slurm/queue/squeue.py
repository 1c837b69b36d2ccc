"""What SLURM says of a study's jobs, in one query and without accounting. Their names carry the study."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from base.errors import UsageError

TIMEOUT_S = 30.0
# Still to start, for the first time or again.
PENDING = frozenset(
    {
        "PENDING",
        "CONFIGURING",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "RESV_DEL_HOLD",
        "SPECIAL_EXIT",
        "STOPPED",
        "SUSPENDED",
    }
)
RUNNING = frozenset({"RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT", "RESIZING"})


@dataclass(frozen=True)
class QueuedJob:
    """A job or an element of an array, as long as SLURM remembers it."""

    state: str
    node: str
    reason: str
    name: str = ""

    @property
    def is_pending(self) -> bool:
        """Whether it is still to start, for the first time or again."""
        return self.state in PENDING

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self.state in RUNNING

    @property
    def is_alive(self) -> bool:
        """Whether it runs or is still to start."""
        return self.is_pending or self.is_running


Queue = Mapping[str, QueuedJob]
"""Job id, ``123`` or ``123_4``, to the job."""


def cells_name(study_dir: Path) -> str:
    """The name of the jobs that have a study's cells; studies of one name in two folders have two."""
    place = study_dir.resolve()
    return f"{place.name}-{hashlib.sha256(bytes(place)).hexdigest()[:8]}"


def report_name(study_dir: Path) -> str:
    """The name of the job that follows them."""
    return f"{cells_name(study_dir)}-report"


def read_queue(study_dir: Path) -> Queue | None:
    """Ask for all jobs of a study, ended ones included as long as SLURM remembers them.

    Returns:
        The jobs; None where SLURM is not there or does not answer, which says nothing about any job.
    """
    names = f"{cells_name(study_dir)},{report_name(study_dir)}"
    command = ["squeue", "--me", "-r", "-h", "-t", "all", f"--name={names}", "-o", "%i|%T|%N|%r|%j"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    jobs = {}
    for line in done.stdout.splitlines():
        job_id, state, node, reason, name = [*line.split("|", 4), "", "", "", ""][:5]
        jobs[job_id] = QueuedJob(state, node, reason, name)
    return jobs


def living_arrays(queue: Queue, name: str) -> list[str]:
    """The ids of arrays, or of single jobs, of a name that run or are still to start, the oldest first."""
    alive = {job_id.split("_")[0] for job_id, job in queue.items() if job.name == name and job.is_alive}
    return sorted(alive, key=int)


def cancel(*options: str) -> None:
    """Call scancel, which says nothing of jobs that have ended.

    Raises:
        UsageError: If it fails or does not end.
    """
    try:
        subprocess.run(["scancel", *options], check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        words = " ".join(str(getattr(error, "stderr", None) or error).split())
        raise UsageError(f"scancel failed: {words[-300:]}; give the same command again") from None


def max_array_size() -> int:
    """Return how many elements this site allows in an array; SLURM's default where it does not say."""
    try:
        command = ["scontrol", "show", "config"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return 1000
    for line in done.stdout.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "MaxArraySize" and value.strip().isdigit():
            return max(1, int(value) - 1)  # indices run from 0 to one below it
    return 1000
