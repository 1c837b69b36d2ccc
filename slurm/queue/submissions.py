"""Which job has which cell: one small file for every array handed to SLURM, in ``<study>/submissions/``.

A record is written before sbatch is called, under a key that is also in the jobs' name. So whoever finds a
record without SLURM's id, because the command that wrote it was killed, can ask SLURM for it
(``slurm.queue.settle``).
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from base.errors import OccupiedError
from base.files import sole_holder
from base.records import read_record, write_record
from pretrain.run.folders import StudyFolder
from slurm.queue.squeue import QueuedJob

KEY = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, kw_only=True)
class Submission:
    """An array of jobs, or the one job that ends a study."""

    key: str = ""
    """What the file is called, and what the jobs' name ends with; versions without it called it by the id."""
    array: str = ""
    """The id that scancel takes for the whole; empty until SLURM has given one."""
    elements: dict[str, tuple[str, ...]]
    """Job id, ``123_4`` or ``123``, to the run ids of its cells; the last job has none.

    Before SLURM has given an id these are what follows it, ``_4`` or nothing.
    """
    after: tuple[str, ...] = ()
    """Of a last job: the arrays that it waits for."""
    round: int = 0
    """0 by a user; else how many times what died was handed in again by the study's last job."""
    snapshot: str = ""
    """Folder of the code that its jobs run."""
    submitted_s: float = field(default_factory=time.time)
    is_dropped: bool = False
    """Whether SLURM did not have it when it was asked; should it appear after all, it ends by itself."""

    @property
    def is_last(self) -> bool:
        """Whether it is the job that ends the study."""
        return not any(self.elements.values())

    @property
    def is_open(self) -> bool:
        """Whether nobody knows yet if SLURM has it."""
        return not self.array and not self.is_dropped

    def accepted(self, array: str) -> Submission:
        """Return it with the id that SLURM gave."""
        return replace(
            self, array=array, elements={f"{array}{suffix}": ids for suffix, ids in self.elements.items()}
        )

    def is_name_of(self, name: str, study_dir: Path) -> bool:
        """Whether a job of this name may be of this submission; ids are given anew in time."""
        if KEY.fullmatch(self.key):
            return name.endswith(f"-{self.key}")
        study = study_dir.resolve().name
        return name in (study, f"{study}-report")

    def jobs_in(self, queue: Mapping[str, QueuedJob], study_dir: Path) -> dict[str, QueuedJob]:
        """Its jobs that SLURM still has to start or is running, by id."""
        found = {job_id: queue[job_id] for job_id in self.elements if job_id in queue}
        return {i: job for i, job in found.items() if job.is_alive and self.is_name_of(job.name, study_dir)}


def new_key() -> str:
    """Return a key that no submission has had."""
    return secrets.token_hex(6)


def write_submission(study_dir: Path, submission: Submission) -> None:
    """Keep a submission for whoever looks later, from whatever shell."""
    write_record(StudyFolder(study_dir).submission_file(submission.key or submission.array), submission)


def read_submission(study_dir: Path, key: str) -> Submission | None:
    """Return one submission; None where there is none, or a damaged one, which is set aside."""
    found = read_record(StudyFolder(study_dir).submission_file(key), Submission)
    return replace(found, key=key) if found else None


def read_submissions(study_dir: Path) -> list[Submission]:
    """Return a study's submissions, the oldest first."""
    keys = [path.stem for path in StudyFolder(study_dir).submission_files()]
    found = [submission for key in keys if (submission := read_submission(study_dir, key))]
    return sorted(found, key=lambda submission: (submission.submitted_s, submission.key))


def newest_jobs(submissions: Sequence[Submission]) -> dict[str, tuple[str, Submission]]:
    """Return for each cell the job that had it last, with its submission."""
    return {
        run_id: (job_id, submission)
        for submission in submissions
        if submission.array
        for job_id, run_ids in submission.elements.items()
        for run_id in run_ids
    }


def sole_submitter(study_dir: Path) -> AbstractContextManager[None]:
    """Keep two commands from handing in the same cells.

    Raises:
        OccupiedError: On entering, if another command of this study is at work.
    """
    at_work = OccupiedError(
        f"{study_dir}: another command of this study is at work; it does all that is missing, "
        "so nothing was submitted"
    )
    return sole_holder(StudyFolder(study_dir).submit_lock_file, at_work)
