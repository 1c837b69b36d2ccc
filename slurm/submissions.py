"""Which job has which cell: one small file for every array handed to SLURM, in ``<study>/submissions/``."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from base.errors import UsageError
from base.files import sole_holder, write_text
from pretrain.run.folders import StudyFolder


@dataclass(frozen=True, kw_only=True)
class Submission:
    """An array of jobs, or the one job that ends a study."""

    array: str
    """The id that scancel takes for the whole."""
    elements: Mapping[str, Sequence[str]]
    """Job id, ``123_4`` or ``123``, to the run ids of its cells; the last job has none."""
    round: int = 0
    """0 by a user; else how many times what died was handed in again by the study's last job."""
    snapshot: str = ""
    """Folder of the code that its jobs run."""
    submitted_s: float = field(default_factory=time.time)


def write_submission(study_dir: Path, submission: Submission) -> None:
    """Keep a submission for whoever looks later, from whatever shell."""
    path = StudyFolder(study_dir).submission_file(submission.array)
    write_text(path, json.dumps(asdict(submission), indent=1))


def read_submissions(study_dir: Path) -> list[Submission]:
    """Return a study's submissions, the oldest first."""
    found = []
    for path in StudyFolder(study_dir).submission_files():
        found.append(Submission(**json.loads(path.read_text(encoding="utf-8"))))
    return sorted(found, key=lambda submission: (submission.submitted_s, submission.array))


def newest_jobs(submissions: Sequence[Submission]) -> dict[str, tuple[str, Submission]]:
    """Return for each cell the job that had it last, with its submission."""
    return {
        run_id: (job_id, submission)
        for submission in submissions
        for job_id, run_ids in submission.elements.items()
        for run_id in run_ids
    }


def sole_submitter(study_dir: Path) -> AbstractContextManager[None]:
    """Keep two commands from handing in the same cells.

    Raises:
        UsageError: On entering, if another command of this study is at work.
    """
    at_work = UsageError(
        f"{study_dir}: another slurm.submit of this study is at work; it does all that is missing, "
        "so nothing was submitted"
    )
    return sole_holder(StudyFolder(study_dir).submit_lock_file, at_work)
