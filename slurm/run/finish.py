"""The last job of a study on a cluster: tries killed cells again, writes the report, and goes on.

It goes on with the next round of tuning, with runs at what was chosen, or with more seeds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from base.errors import OccupiedError, UsageError
from slurm.queue.settle import cancel_quietly, settle
from slurm.queue.squeue import Queue, read_queue
from slurm.queue.submissions import Submission, read_submissions, sole_submitter
from slurm.run.sbatch import SlurmSubmitter
from slurm.run.stages import Growing, end_stage
from slurm.run.todo import find_todo
from slurm.state.survey import survey
from slurm.study.cells import Cell, own_variants
from slurm.study.study import Study

MAX_ROUNDS = 2
"""How often what died without a word is submitted again before a user has to look."""
SUBMITTER_WAIT_S = 900.0
SUBMITTER_POLL_S = 2.0


class LastJob:
    """Runs when every cell's job has ended, however it did.

    Args:
        submitter: Submits again.
        round_: How often that was done before.
    """

    def __init__(self, submitter: SlurmSubmitter, round_: int = 0) -> None:
        self.submitter = submitter
        self.round = round_

    def __call__(self) -> None:
        study = self.submitter.study
        if _is_superseded(study.folder):
            return
        _load_own(study)
        self._hand_in(self._try_again)
        later = end_stage(study)
        if len(later.cells) > len(study.cells):
            self._hand_in(lambda: self._go_on(later))

    def _hand_in(self, work: Callable[[], None]) -> None:
        """Do what submits, unless a command of the user or a newer last job does it."""
        try:
            with _patient_submitter(self.submitter.study.folder):
                if not _is_superseded(self.submitter.study.folder):
                    settle(self.submitter.study.folder)
                    work()
        except UsageError as error:
            print(f"nothing was submitted: {error}", flush=True)

    def _try_again(self) -> None:
        study = self.submitter.study
        states = survey(study.folder, [cell.run_id for cell in study.cells])
        todo = [cell for cell in study.cells if states[cell.run_id].may_retry]
        if todo and self.round < MAX_ROUNDS:
            self._submit(self.submitter, todo, self.round + 1)
            print(f"{len(todo)} cells were killed and are submitted again", flush=True)

    def _go_on(self, study: Study) -> None:
        """Submit what the next stage needs: a round of tuning, runs at what was chosen, or a look."""
        study.write()
        # If this job was stopped before it ended, and runs again, they may be submitted, or done.
        if cells := find_todo(study, retry_failed=False).cells:
            self._submit(self.submitter.of(study), cells, 0)
            print(f"{len(cells)} cells are submitted for the next {study.stage}", flush=True)
        elif ensure_last(self.submitter.of(study)) is None:
            end_stage(study)

    def _submit(self, submitter: SlurmSubmitter, cells: Sequence[Cell], round_: int) -> None:
        """Submit cells and the job that comes after them."""
        submitter.submit_cells(cells, round_, following(submitter))
        ensure_last(submitter, round_)


class Follow:
    """What a job of cells does at its end where variants or settings are tuned apart: hand in what follows.

    So none waits for the others. What it leaves undone, as when it is killed, the study's last job does.
    """

    def __init__(self, submitter: SlurmSubmitter) -> None:
        self.submitter = submitter

    def __call__(self) -> None:
        study = self.submitter.study
        _load_own(study)
        try:
            with _patient_submitter(study.folder):
                settle(study.folder)
                growing = Growing(study.now())
                if cells := growing():
                    submitter = self.submitter.of(growing.study)
                    submitter.submit_cells(cells, 0, following(submitter))
                    ensure_last(submitter)
                    print(f"{len(cells)} cells are submitted, as what they rest on has ended", flush=True)
        except UsageError as error:
            print(f"nothing was submitted: {error}", flush=True)


def following(submitter: SlurmSubmitter) -> Follow | None:
    """Return what jobs of cells do at their end; None where the study's last job does as soon."""
    tuning = submitter.study.tuning
    if tuning is None or tuning.is_over or len(tuning.plan.groups) == 1:
        return None
    return Follow(submitter)


def _load_own(study: Study) -> None:
    """Load variants that are in files; without one it is not known whether its runs are of another source."""
    for own in own_variants(study.planned):
        try:
            own.load()
        except UsageError as error:
            print(f"note: {error}", flush=True)


def ensure_last(submitter: SlurmSubmitter, round_: int = 0) -> Submission | None:
    """Have exactly one job that ends the study, which waits for all of it that is queued or running.

    Call it as the sole submitter, after the study was settled.

    Returns:
        That job; None where nothing is queued or running.

    Raises:
        UsageError: If SLURM does not answer.
    """
    folder = submitter.study.folder
    queue = read_queue()
    if queue is None:
        raise UsageError("SLURM does not answer; the same command submits the job that writes the report")
    cells, lasts = _living(folder, queue)
    if not cells:
        return None
    awaited = {submission.array for submission in cells}
    fitting = (last for last in lasts if _is_pending(last, queue, folder) and awaited <= set(last.after))
    kept = next(fitting, None)
    if kept is None:
        kept = submitter.submit_last(LastJob(submitter, round_), sorted(awaited, key=_number), round_)
    own = os.environ.get("SLURM_JOB_ID")  # of the last job that calls this
    cancel_quietly(last.array for last in lasts if last.array not in (kept.array, own))
    return kept


def living_last(study_dir: Path, queue: Queue) -> Submission | None:
    """Return the job that will end the study, if there is one."""
    return next(iter(_living(study_dir, queue)[1]), None)


def _living(study_dir: Path, queue: Queue) -> tuple[list[Submission], list[Submission]]:
    """Return what SLURM still has to start or runs: cells, and last jobs, the newest first."""
    alive = [one for one in read_submissions(study_dir) if one.jobs_in(queue, study_dir)]
    return [one for one in alive if not one.is_last], [one for one in alive[::-1] if one.is_last]


def _is_pending(last: Submission, queue: Queue, study_dir: Path) -> bool:
    return any(job.is_pending for job in last.jobs_in(queue, study_dir).values())


def _is_superseded(study_dir: Path) -> bool:
    """Whether a newer last job of the study stands for this one."""
    own, queue = os.environ.get("SLURM_JOB_ID"), read_queue()
    if own is None or queue is None:
        return False
    newest = living_last(study_dir, queue)
    return newest is not None and newest.array != own


@contextmanager
def _patient_submitter(study_dir: Path) -> Iterator[None]:
    """Become the sole submitter as soon as a command that is at work has ended."""
    until = time.monotonic() + SUBMITTER_WAIT_S
    while True:
        holder = sole_submitter(study_dir)
        try:
            holder.__enter__()
        except OccupiedError:
            if time.monotonic() > until:
                raise
            time.sleep(SUBMITTER_POLL_S)
        else:
            break
    try:
        yield
    finally:
        holder.__exit__(None, None, None)


def _number(array: str) -> int:
    return int(array) if array.isdigit() else 0
