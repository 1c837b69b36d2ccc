"""What a killed command left open: whether SLURM took its jobs. Asked before anything is submitted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from base.errors import UsageError
from pretrain.run.folders import StudyFolder
from slurm.queue.handover import drop, note_array, script_keys, wait_for_sbatch
from slurm.queue.squeue import Queue, QueuedJob, cancel, read_queue
from slurm.queue.submissions import Submission, read_submissions


def settle(study_dir: Path) -> Queue | None:
    """Give every submission of a study SLURM's id, or drop it if SLURM does not have it.

    Jobs that no whole record stands for are cancelled: their cells are handed in anew. Call it as the sole
    submitter.

    Returns:
        The queue; empty where the study has submitted nothing, None where SLURM does not answer.

    Raises:
        UsageError: If it is open whether SLURM has jobs, and it does not answer.
    """
    submissions = read_submissions(study_dir)
    keys = script_keys(study_dir) | {submission.key for submission in submissions}
    if not keys:
        return {}
    for submission in submissions:
        if submission.is_open:
            wait_for_sbatch(study_dir, submission.key)
    queue = read_queue()
    if queue is None:
        _refuse_if_open(study_dir, submissions)
        return None
    arrays = _arrays_by_key(queue.items())
    for submission in submissions:
        if submission.is_open:
            _settle_one(study_dir, submission, arrays.get(submission.key))
    alive = _arrays_by_key((job_id, job) for job_id, job in queue.items() if job.is_alive)
    known = {submission.key for submission in submissions if not submission.is_dropped}
    cancel_quietly(alive[key] for key in sorted(keys & alive.keys() - known))
    return queue


def cancel_quietly(arrays: Iterable[str]) -> None:
    """Cancel jobs that would end by themselves without having done anything."""
    if arrays := list(arrays):
        try:
            cancel(arrays)
            print(f"cancelled, as others stand for them: SLURM {', '.join(arrays)}", flush=True)
        except (OSError, subprocess.SubprocessError):
            print(f"note: SLURM {', '.join(arrays)} cannot be cancelled now", file=sys.stderr, flush=True)


def _settle_one(study_dir: Path, submission: Submission, array: str | None) -> None:
    num_cells = sum(map(len, submission.elements.values()))
    what = "its last job" if submission.is_last else f"its {num_cells} cells"
    if array is None:
        drop(study_dir, submission)
        print(f"a command was killed, and SLURM does not have {what}", flush=True)
    else:
        note_array(study_dir, submission, array)
        print(f"a command was killed, and SLURM has {what} (SLURM {array})", flush=True)


def _refuse_if_open(study_dir: Path, submissions: Iterable[Submission]) -> None:
    for submission in submissions:
        if submission.is_open:
            file = StudyFolder(study_dir).submission_file(submission.key)
            raise UsageError(
                f"SLURM does not answer, and may have the jobs of {file} from a command that was killed, so "
                "nothing was submitted; try again where squeue works, or remove that file if they are gone"
            )


def _arrays_by_key(jobs: Iterable[tuple[str, QueuedJob]]) -> dict[str, str]:
    """The newest array of each key, which stands at the end of a job's name."""
    return {job.name.rpartition("-")[2]: job_id.split("_")[0] for job_id, job in jobs}
