"""What SLURM says of this user's jobs, in one query and without accounting."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

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


def read_queue() -> Mapping[str, QueuedJob] | None:
    """Ask for all jobs of this user, ended ones included as long as SLURM remembers them.

    Returns:
        Job id, ``123`` or ``123_4``, to the job; None where SLURM is not there or does not answer, which says
        nothing about any job.
    """
    command = ["squeue", "--me", "-r", "-h", "-t", "all", "-o", "%i|%T|%N|%r|%j"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    jobs = {}
    for line in done.stdout.splitlines():
        job_id, state, node, reason, name = [*line.split("|", 4), "", "", "", ""][:5]
        jobs[job_id] = QueuedJob(state, node, reason, name)
    return jobs


def cancel(job_ids: list[str]) -> None:
    """Cancel jobs, whole arrays by the id of the array.

    Raises:
        OSError: If scancel cannot be run.
        subprocess.SubprocessError: If it fails or does not end.
    """
    subprocess.run(["scancel", *job_ids], check=True, capture_output=True, text=True, timeout=TIMEOUT_S)


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


def scrubbed_environment() -> dict[str, str]:
    """This process' variables without those that a job has: sbatch would take them for options.

    SLURM_CONF stays, as it says where the cluster is.
    """
    prefixes = ("SLURM_", "SBATCH_", "SUBMITIT_", "SRUN_")
    return {k: v for k, v in os.environ.items() if not k.startswith(prefixes) or k == "SLURM_CONF"}
