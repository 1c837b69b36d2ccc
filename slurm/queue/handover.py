"""Handing jobs to SLURM so that a command killed at any moment leaves nothing that cannot be told.

In order: the jobs' content and script, the record that they are about to be submitted, sbatch, the record
with SLURM's id. All lie in ``<study>/jobs/`` under the submission's key, so that a job finds its content also
where nobody lived to note its id (``slurm.queue.start``). While sbatch runs it holds a lock on its script,
which outlives whoever called it.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import submitit
from submitit.helpers import DelayedSubmission

from base.errors import UsageError
from base.system import try_lock
from pretrain.run.folders import StudyFolder
from slurm.queue.sealed import Sealed
from slurm.queue.squeue import read_queue, scrubbed_environment
from slurm.queue.submissions import KEY, Submission, write_submission

SBATCH_PATIENCE_S = 120.0
"""How long to wait for an sbatch whose caller was killed."""


_ID = re.compile(r"(\d+)(?:;\S+)?|Submitted batch job (\d+)(?: on cluster \S+)?")


def job_command(jobs_dir: Path, key: str) -> str:
    """Return the command of a job, for its script."""
    return f"{shlex.quote(sys.executable)} -u -m slurm.queue.start {shlex.quote(str(jobs_dir))} {key}"


def script_of(study_dir: Path, key: str) -> Path:
    """Where the script of a submission lies."""
    return StudyFolder(study_dir).jobs_dir / f"{key}.sh"


def hand_over(
    study_dir: Path,
    executor: submitit.SlurmExecutor,
    calls: Sequence[Callable[[], None]],
    submission: Submission,
) -> Submission:
    """Submit calls, one a job; returns their record with SLURM's id.

    Args:
        study_dir: The study's folder.
        executor: What the jobs ask SLURM for; they are named by its ``job_name`` and the submission's key.
        calls: What they run, in the order of ``submission.elements``.
        submission: Their record, without SLURM's id.

    Raises:
        UsageError: If SLURM refuses them, or leaves it open whether it has them.
    """
    folder, key = StudyFolder(study_dir).jobs_dir.resolve(), submission.key
    folder.mkdir(parents=True, exist_ok=True)
    parameters = executor.parameters
    for suffix, call in zip(submission.elements, calls, strict=True):
        delayed = DelayedSubmission(Sealed(call))
        delayed.set_timeout(parameters["time"], executor.max_num_timeout)
        delayed.dump(folder / f"{key}{suffix}.pkl")
    executor.update_parameters(job_name=f"{parameters['job_name']}-{key}")
    if len(calls) > 1:
        executor.parameters["map_count"] = len(calls)
    script = script_of(study_dir, key)
    script.write_text(executor._make_submission_file_text(job_command(folder, key), key), encoding="utf-8")
    write_submission(study_dir, submission)
    return _call_sbatch(study_dir, submission)


def note_array(study_dir: Path, submission: Submission, array: str) -> Submission:
    """Note the id that SLURM gave."""
    submission = submission.accepted(array)
    write_submission(study_dir, submission)
    return submission


def wait_for_sbatch(study_dir: Path, key: str) -> None:
    """Wait until no sbatch is at work with a script, which one may be whose caller was killed.

    Raises:
        UsageError: If it does not end.
    """
    until = time.monotonic() + SBATCH_PATIENCE_S
    with contextlib.suppress(FileNotFoundError), script_of(study_dir, key).open("r+") as script:
        while not try_lock(script.fileno()):
            if time.monotonic() > until:
                raise UsageError(
                    f"{study_dir}: an sbatch of this study does not end, so nothing was submitted; "
                    "give the same command again when SLURM answers"
                )
            time.sleep(0.2)


def script_keys(study_dir: Path) -> set[str]:
    """Return the keys of submissions that were ever begun, those included whose record is lost."""
    names = (path.stem for path in StudyFolder(study_dir).jobs_dir.glob("*.sh"))
    return {name for name in names if KEY.fullmatch(name)}


def _call_sbatch(study_dir: Path, submission: Submission) -> Submission:
    """Call sbatch. That it fails does not say that SLURM has not taken the jobs: its answer may be lost."""
    script = script_of(study_dir, submission.key)
    try:
        with script.open("r+") as lock:
            try_lock(lock.fileno())
            done = subprocess.run(
                ["sbatch", "--parsable", str(script.resolve())],
                env=scrubbed_environment(),
                pass_fds=[lock.fileno()],
                capture_output=True,
                text=True,
            )
        said = done.stderr or done.stdout
        if done.returncode == 0 and (array := given_id(done.stdout)):
            return note_array(study_dir, submission, array)
    except OSError as error:
        said = str(error)
    return _after_failure(study_dir, submission, " ".join(said.split())[-400:])


def given_id(answer: str) -> str | None:
    """Return the id in sbatch's answer, the only one that stands on a line as sbatch writes it.

    Sites wrap sbatch in scripts that print more, or that drop ``--parsable``.
    """
    ids = {found[1] or found[2] for line in answer.splitlines() if (found := _ID.fullmatch(line.strip()))}
    return ids.pop() if len(ids) == 1 else None


def _after_failure(study_dir: Path, submission: Submission, said: str) -> Submission:
    queue = read_queue()
    if queue is None:
        raise UsageError(
            f"sbatch failed ({said}), and SLURM does not say whether it took the jobs; "
            "the same command asks again"
        )
    for job_id, job in queue.items():
        if submission.is_name_of(job.name, study_dir):
            return note_array(study_dir, submission, job_id.split("_")[0])
    drop(study_dir, submission)
    raise UsageError(f"sbatch refused the jobs: {said}; check the preset with --dry-run")


def drop(study_dir: Path, submission: Submission) -> None:
    """Note that SLURM does not have the jobs of a submission; should they appear, they end by themselves."""
    write_submission(study_dir, replace(submission, is_dropped=True))
    script_of(study_dir, submission.key).unlink(missing_ok=True)
    for suffix in submission.elements:
        (StudyFolder(study_dir).jobs_dir / f"{submission.key}{suffix}.pkl").unlink(missing_ok=True)
