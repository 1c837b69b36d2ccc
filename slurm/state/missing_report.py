"""Telling that nobody will write the report of a study whose cells have all ended."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from base.errors import UsageError
from pretrain.run.folders import StudyFolder
from slurm.queue.squeue import read_queue
from slurm.queue.submissions import read_submissions
from slurm.state.cell_state import CellState
from slurm.state.launcher import read_note
from slurm.state.listing import read_listing

CLOCKS_S = 60.0
"""By how much the clocks of machines may differ."""


def missing_report(study_dir: Path, states: Mapping[str, CellState]) -> str:
    """Say that what comes after a study's cells did not come, and why.

    Args:
        study_dir: The study's folder.
        states: Of all of its cells.

    Returns:
        One line; empty where cells have not ended, the report is there, someone is to write it, or nobody
        was to.
    """
    if not states or not all(state.name in ("done", "failed") for state in states.values()):
        return ""
    try:
        goes_on = read_listing(study_dir).goes_on
    except UsageError:
        return ""
    if not goes_on and _has_report(study_dir, max(state.finished_s for state in states.values())):
        return ""
    who = _dead(study_dir)
    what = "nothing follows and there is no report" if goes_on else "no report of these cells"
    return f"{what}: {who}; give the same command again" if who else ""


def is_followed(study_dir: Path) -> bool:
    """Whether there may be more cells, and somebody will start them: a command here, or a queued job."""
    try:
        if not read_listing(study_dir).goes_on:
            return False
    except UsageError:
        return False
    if (note := read_note(study_dir)) is not None:
        return not note.is_dead
    return _last_jobs(study_dir).are_queued is True


def _has_report(study_dir: Path, ended_s: float) -> bool:
    """Whether there is a report that was written after the last cell had ended."""
    file = StudyFolder(study_dir).report_file
    return file.is_file() and file.stat().st_mtime >= ended_s - CLOCKS_S


def _dead(study_dir: Path) -> str:
    """Who was to write the report and died; empty where somebody may still be at it, or nobody was to."""
    note = read_note(study_dir)
    if note is not None:  # of a command that runs here, or was killed while it did
        return "the command that was to write it was killed" if note.report and note.is_dead else ""
    last = _last_jobs(study_dir)
    if not last.arrays or last.are_queued is not False:
        return ""
    logs = StudyFolder(study_dir).jobs_dir / f"{last.arrays[-1]}_0_log.err"
    return f"the job that was to write it ended without (SLURM {last.arrays[-1]}, log: {logs})"


class _LastJobs(NamedTuple):
    """The jobs that were to go on after a study's cells."""

    arrays: tuple[str, ...]
    """Their ids in SLURM, in the order of their submission."""
    are_queued: bool | None
    """Whether one of them waits or runs; None where SLURM gives no answer, or there are none."""


def _last_jobs(study_dir: Path) -> _LastJobs:
    lasts = [one for one in read_submissions(study_dir) if one.is_last and one.array]
    queue = read_queue() if lasts else None
    are_queued = None if queue is None else any(one.jobs_in(queue, study_dir) for one in lasts)
    return _LastJobs(tuple(str(one.array) for one in lasts), are_queued)
