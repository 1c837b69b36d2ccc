"""Cancelling a study: its jobs in the queue, or the command that runs it on this machine."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

from base.errors import UsageError
from slurm.local import read_launcher
from slurm.squeue import cancel, read_queue
from slurm.submissions import read_submissions


def cancel_study(study_dir: Path) -> int:
    """Cancel what is queued or running of a study.

    Raises:
        UsageError: If SLURM does not answer, or the study runs on another machine.
    """
    cancelled = [*_cancel_jobs(study_dir), *_stop_launcher(study_dir)]
    print(f"cancelled: {', '.join(cancelled)}" if cancelled else "nothing of this study is queued or running")
    return 0


def _cancel_jobs(study_dir: Path) -> list[str]:
    submissions = read_submissions(study_dir)
    if not submissions:
        return []
    queue = read_queue()
    if queue is None:
        raise UsageError("SLURM does not answer, so nothing was cancelled; try again where squeue works")
    alive = {job_id for job_id, job in queue.items() if job.is_pending or job.is_running}
    arrays = [submission.array for submission in submissions if alive & submission.elements.keys()]
    if arrays:
        # The last job first: it would take cancelled cells for ended ones and write its report.
        cancel(sorted(arrays, key=int, reverse=True))
    return [f"SLURM {array}" for array in arrays]


def _stop_launcher(study_dir: Path) -> list[str]:
    launcher = read_launcher(study_dir)
    if launcher is None:
        return []
    if launcher["host"] != socket.gethostname():
        raise UsageError(f"the study runs on {launcher['host']}; cancel it there")
    os.kill(launcher["pid"], signal.SIGTERM)  # it ends its cells, which save first
    return [f"process {launcher['pid']}"]
