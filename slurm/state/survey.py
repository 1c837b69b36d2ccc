"""Where every cell of a study stands, from its files and one look at the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from base.errors import UsageError
from base.run.folders import StudyFolder
from base.system import is_locked
from slurm.queue.squeue import Queue, living_arrays, read_queue, report_name
from slurm.state.cell_state import CellState, read_state
from slurm.state.listing import read_listing

SILENT = "SLURM does not answer"
"""What is said of cells in jobs of which nobody can be asked."""
BY_SOMEBODY = ("CANCELLED", "DEADLINE")
"""Ends of a job that somebody wanted."""


def survey(study_dir: Path, run_ids: Sequence[str]) -> dict[str, CellState]:
    """Return the state of every cell.

    Args:
        study_dir: The study's folder.
        run_ids: Its cells.

    Returns:
        States as their workers left them, corrected by what the queue says of their jobs. Where SLURM does
        not answer, a job is believed to be as it was last seen.
    """
    states = {run_id: read_state(study_dir, run_id) for run_id in run_ids}
    queued = [run_id for run_id, state in states.items() if _is_of_the_queue(state)]
    queue = read_queue(study_dir) if queued else {}
    # Again, as a job that was over by then may have ended its cell since the first look.
    return states | {run_id: _corrected(read_state(study_dir, run_id), queue) for run_id in queued}


def is_followed(study_dir: Path) -> bool:
    """Whether there may be more cells, and somebody will start them: a command here, or a queued job."""
    try:
        if not read_listing(study_dir).goes_on:
            return False
    except UsageError:
        return False
    if is_locked(StudyFolder(study_dir).submit_lock_file):
        return True
    return bool(living_arrays(read_queue(study_dir) or {}, report_name(study_dir)))


def _is_of_the_queue(state: CellState) -> bool:
    return bool(state.job) and state.name in ("queued", "running", "missing")


def _corrected(state: CellState, queue: Queue | None) -> CellState:
    """Hold what was written down against what the queue says."""
    if not _is_of_the_queue(state):
        return state
    if queue is None:
        return replace(state, error=SILENT)
    job = queue.get(state.job)
    if job and job.is_pending:  # also where it saved, and is queued again
        return replace(state, name="queued", error="" if job.reason == "None" else job.reason)
    if job and job.is_running:
        # A worker that has saved says so before its job is queued again.
        is_at_work = state.name == "running" or job.state == "COMPLETING"
        return replace(
            state, name="running" if is_at_work else "queued", host=state.host or job.node, error=""
        )
    if state.name == "missing":
        return state
    word = f": {job.state.lower().replace('_', ' ')}" if job else ""
    has_begun = state.name == "running"
    what = "ended without a result" if has_begun else "left the queue before it started"
    # What SLURM has forgotten was cancelled while it waited, which leaves no trace, or died long ago.
    was_killed = job.state not in BY_SOMEBODY if job else has_begun
    return replace(state, name="missing", error=f"its job {what}{word}", may_retry=was_killed)
