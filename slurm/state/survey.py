"""Where every cell of a study stands, from its files and one look at the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from slurm.queue.squeue import Queue, QueuedJob, read_queue
from slurm.queue.submissions import Submission, newest_jobs, read_submissions
from slurm.state.cell_state import CellState, read_state


def survey(study_dir: Path, run_ids: Sequence[str]) -> dict[str, CellState]:
    """Return the state of every cell.

    Args:
        study_dir: The study's folder.
        run_ids: Its cells.

    Returns:
        States as their workers left them, corrected by what the queue says of their jobs. Where SLURM does
        not answer, a job is believed to be as it was last seen.
    """
    jobs = newest_jobs(read_submissions(study_dir))
    queue = _own(read_queue(), jobs, study_dir) if jobs else {}
    return {run_id: _state(read_state(study_dir, run_id), jobs.get(run_id), queue) for run_id in run_ids}


def _own(queue: Queue | None, jobs: Mapping[str, tuple[str, Submission]], study_dir: Path) -> Queue | None:
    """Leave out what has the id of one of the study's jobs and another name: it is somebody else's."""
    if queue is None:
        return None
    own = dict(jobs.values())
    return {i: job for i, job in queue.items() if i in own and own[i].is_name_of(job.name, study_dir)}


def _state(state: CellState, job: tuple[str, Submission] | None, queue: Queue | None) -> CellState:
    """Hold a worker's word against the queue's."""
    if job is None or state.name == "done":
        return state
    job_id, submission = job
    is_older = state.job != job_id  # the worker's word is of an attempt before this job, or of one after it
    entry = None if queue is None else queue.get(job_id)
    if is_older and state.started_s > submission.submitted_s and not (entry and entry.is_alive):
        return state
    state = replace(state, job=job_id)
    if queue is None:
        return replace(state, name="queued", error="SLURM does not answer") if is_older else state
    if entry is not None and entry.is_pending:
        return replace(state, name="queued", error="" if entry.reason in ("None", "") else entry.reason)
    if entry is not None and entry.is_running:
        if state.name == "failed" and not is_older:
            return state  # the job goes on with its other cells
        is_at_work = (state.name == "running" and not is_older) or entry.state == "COMPLETING"
        name = "running" if is_at_work else "queued"  # it starts, or has other cells before this one
        return replace(state, name=name, host=state.host or entry.node, error="", silent_s=None)
    return _gone(state, is_older, entry)


def _gone(state: CellState, is_older: bool, entry: QueuedJob | None) -> CellState:
    """The job is over, or SLURM has forgotten it: a cell that did not end by itself is missing."""
    word = f": {entry.state.lower().replace('_', ' ')}" if entry is not None else ""
    if is_older:
        # Of one that SLURM does not know it was cancelled while it waited, which leaves no trace; else
        # its job died with a cell before it.
        error = f"its job left the queue before it started{word}"
        return replace(state, name="missing", may_retry=_was_killed(entry), error=error)
    if state.name == "running" or state.may_retry:
        may_retry = entry is None or _was_killed(entry)
        return replace(
            state, name="missing", may_retry=may_retry, error=f"its job ended without a result{word}"
        )
    return state


def _was_killed(entry: QueuedJob | None) -> bool:
    return entry is not None and entry.state not in ("CANCELLED", "DEADLINE")
