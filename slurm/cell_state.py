"""Where a study stands: the states of its cells, in small files that any shell can read later, and the queue.

``<study>/cells/<family>--<variant>--seed<N>-<hash>.json`` is written by whoever hands the cell to SLURM, and
by the worker that has it. A worker holds the ``.lock`` beside it, which the system releases however it dies,
so no state needs cleaning up by hand. ``survey`` corrects all of them by one look at the queue.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Literal

from pydantic import Field

from base.config_input import read_yaml
from base.errors import OccupiedError, UsageError
from base.files import sole_holder
from base.printing import duration, format_table
from base.records import read_record, write_record
from base.run.folder_names import RunFolder, StudyFolder
from base.run.manifest import read_log
from base.sections import check
from base.system import is_locked
from report.inputs.study_design import StudyAxes
from scores.stages import is_cut_off
from slurm.cluster import PENDING, RUNNING, Queue, living_arrays, read_queue, report_name

StateName = Literal["waiting", "queued", "running", "done", "failed", "missing", "diverged"]
Part = Literal["pretrain", "evaluate"]


@dataclass(frozen=True, kw_only=True)
class CellState:
    """What is known of a cell.

    ``waiting`` was never handed to anyone; ``queued`` waits in SLURM; ``missing`` was handed out or started,
    but is gone and left no result. ``failed`` ended with an error of its own and would again. ``diverged`` is
    only shown (see ``as_result``).
    """

    name: StateName = "waiting"
    stage: Part = "pretrain"
    host: str = ""
    pid: int = 0
    attempts: int = 0
    started_s: float = 0.0
    finished_s: float = 0.0
    error: str = ""
    log: str = ""
    job: str = ""
    """SLURM's id of the job that has the cell or had it last."""
    has_scores: bool = False
    """Whether there were any when it was done."""
    may_retry: bool = False
    """Whether it was killed without a word, so that another try may well succeed."""


def read_state(study_dir: Path, run_id: str) -> CellState:
    """Read a cell's state; ``waiting`` where there is none, or a damaged one, which is set aside.

    A cell that runs outside of SLURM is ``missing`` if no process holds it, and one that was done if its
    folder or its scores are gone; one that an archive brought back is ``done``.
    """
    folder = StudyFolder(study_dir)
    file, lock = folder.cell_file(run_id), folder.cell_lock_file(run_id)
    state = read_record(file, CellState) or CellState()
    if state.name == "running" and not state.job and not is_locked(lock):
        state = read_record(file, CellState) or state  # a process lets go after it has written how it ended
        if state.name == "running":
            error = state.error or "its process ended without a result"
            return replace(state, name="missing", may_retry=True, error=error)
    run = folder.run(run_id)
    if state.name == "done" and not (run.eval_dir if state.has_scores else run.path).is_dir():
        what = "its scores were" if run.path.is_dir() else "its folder was"
        return CellState(name="missing", attempts=state.attempts, error=f"{what} removed")
    is_restored = state.name == "waiting" and run.is_archived
    return replace(state, name="done") if is_restored else state


def held_cell(study_dir: Path, run_id: str, patience_s: float) -> AbstractContextManager[None]:
    """Have a cell inside the block; waits for another process that has it.

    Raises:
        OccupiedError: On entering, if that one does not end in ``patience_s`` seconds.
    """
    return sole_holder(
        StudyFolder(study_dir).cell_lock_file(run_id),
        OccupiedError("another process is at work with it"),
        patience_s,
    )


def write_state(study_dir: Path, run_id: str, state: CellState) -> None:
    """Replace a cell's state in one step, so that a reader never sees half of it.

    A state that cannot be written, as on a full disk, is told of and stops nothing: what a cell has come to
    lies in its run's folder.
    """
    try:
        write_record(StudyFolder(study_dir).cell_file(run_id), state)
    except OSError as error:
        print(f"note: the state of {run_id} cannot be written: {error}", file=sys.stderr, flush=True)


def as_result(state: CellState, run: Path, is_tuning: bool) -> CellState:
    """Return a state as a reader is shown it: a tuning run that diverged is no failure but a result."""
    if is_tuning and state.name == "failed" and RunFolder(run).has_diverged:
        return replace(state, name="diverged")
    return state


def queued_state(study_dir: Path, run_id: str, job: str) -> None:
    """Note that a cell was handed to a job of SLURM, unless that job has begun with it already."""
    before = read_state(study_dir, run_id)
    if before.job != job:
        write_state(study_dir, run_id, CellState(name="queued", job=job, attempts=before.attempts))


def start_state(study_dir: Path, run_id: str, log: str, job: str = "") -> CellState:
    """Mark a cell as running in this process and count the attempt."""
    state = CellState(
        name="running",
        host=socket.gethostname(),
        pid=os.getpid(),
        attempts=read_state(study_dir, run_id).attempts + 1,
        started_s=time.time(),
        log=log,
        job=job,
    )
    write_state(study_dir, run_id, state)
    return state


def read_progress(folder: Path) -> dict[str, float]:
    """Read where a run's training stands from the end of its ``metrics.jsonl``.

    Returns:
        The newest ``step``, ``max_steps``, ``loss``, ``tokens_per_s`` and ``time_s`` (seconds of training so
        far, those before an interruption included); empty before the first was logged.
    """
    newest: dict[str, float] = {}
    for record in read_log(RunFolder(folder), last_bytes=8192):
        newest |= record
    return newest


def describe(state: CellState, folder: Path) -> str:
    """Say in a few words what a running cell is doing and when its training will end."""
    if state.stage == "evaluate":
        return "evaluating"
    progress = read_progress(folder)
    if not progress.get("max_steps"):
        return "starting"
    step, max_steps = int(progress.get("step", 0)), int(progress["max_steps"])
    words = f"step {step}/{max_steps}"
    if "loss" in progress:
        words += f", loss {progress['loss']:.3f}"
    if "tokens_per_s" in progress:
        words += f", {progress['tokens_per_s']:,.0f} tokens/s"
    if 0 < step < max_steps and "time_s" in progress:
        words += f", {duration(progress['time_s'] * (max_steps - step) / step)} left"
    return words


SILENT = "SLURM does not answer"
"""The note on cells in jobs while SLURM cannot be asked."""
BY_SOMEBODY = ("CANCELLED", "DEADLINE")
"""States of jobs that a person or the scheduler ended on purpose: they are not tried again."""


class StudyListing(StudyAxes):
    """A study's cells, as its ``study.yaml`` names them."""

    run_ids: tuple[str, ...] = Field((), alias="cells")
    typed: str = ""
    """What runs it, behind ``ffn-ablations study run``; empty in a file of an earlier version."""
    of_cells: str = ""
    """The flags that chose its cells, such as ``--seeds 1-3``."""


def read_listing(study: Path) -> StudyListing:
    """List the cells of a study, as its folder names them.

    Raises:
        UsageError: If the folder is not that of a submitted study, or its ``study.yaml`` is damaged.
    """
    file, listing = StudyFolder(study).study_file, peek_listing(study)
    if listing.run_ids:
        return listing
    if file.is_file():
        raise UsageError(f"{file} is damaged: it names no cells; ffn-ablations study run writes it again")
    if StudyFolder(study).submit_lock_file.exists():
        raise UsageError(f"{study}: nothing of it was begun or handed in yet; give study run again")
    raise UsageError(f"{study} holds no {file.name}; name a study's YAML file or its folder below runs/")


def peek_listing(study: Path) -> StudyListing:
    """Read a study's ``study.yaml``; without cells where it is missing or damaged."""
    try:
        content = read_yaml(StudyFolder(study).study_file)
        return StudyListing() if is_cut_off(content) else check(StudyListing, content)
    except UsageError:
        return StudyListing()


def describe_levels(run_id: str, levels: Mapping[str, str]) -> str:
    """Name the levels of a run that its folder's name does not show: ``kan grid_size=3, size 0.1M``.

    Args:
        run_id: ``family/variant/run``.
        levels: Its variant's (``variant``), and those on axes by their names.
    """
    folder = run_id.split("/")[1:2]
    return ", ".join(
        level if axis == "variant" else f"{axis} {level}"
        for axis, level in levels.items()
        if axis != "variant" or [level] != folder
    )


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
    in_jobs = [run_id for run_id, state in states.items() if _is_of_the_queue(state)]
    queue = read_queue(study_dir) if in_jobs else {}
    # Again, as a job that was over by then may have ended its cell since the first look.
    now = {run_id: _state_by_queue(read_state(study_dir, run_id), queue) for run_id in in_jobs}
    return states | {run_id: _with_log_of_job(study_dir, state) for run_id, state in now.items()}


def is_followed(study_dir: Path) -> bool:
    """Whether a command here or a queued job will start what follows, more cells or the report."""
    if is_locked(StudyFolder(study_dir).submit_lock_file):
        return True
    return bool(living_arrays(read_queue(study_dir) or {}, report_name(study_dir)))


def _is_of_the_queue(state: CellState) -> bool:
    return bool(state.job) and state.name in ("queued", "running", "missing")


def _with_log_of_job(study_dir: Path, state: CellState) -> CellState:
    """Name the log of a job that ended before it began with the cell, as by a failing line of ``setup``."""
    log = next(StudyFolder(study_dir).jobs_dir.glob(f"*/{state.job}_*_log.err"), None)
    if state.name != "missing" or state.log or log is None:
        return state
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
    return replace(state, error=f"{state.error}; its log ends: {last[:200]}", log=str(log))


def _state_by_queue(state: CellState, queue: Queue | None) -> CellState:
    """Correct the state that a worker wrote by what the queue says of its job."""
    # What its worker wrote is older than the queue: a cell "running" in a job that is pending was saved and
    # queued again, and one "running" in a job that has failed was killed before it could write that.
    if not _is_of_the_queue(state):
        return state
    if queue is None:
        return replace(state, error=SILENT)
    job = queue.get(state.job)
    if job and job.state in PENDING:  # also where it saved, and is queued again
        return replace(state, name="queued", error="" if job.reason == "None" else job.reason)
    if job and job.state in RUNNING:
        # A worker that has saved says so before its job is queued again.
        is_at_work = state.name == "running" or (state.name == "missing" and job.state == "COMPLETING")
        return replace(
            state, name="running" if is_at_work else "queued", host=state.host or job.node, error=""
        )
    if state.name == "missing":
        return state
    word = f": {job.state.lower().replace('_', ' ')}" if job else ""
    has_begun = state.name == "running"
    end = "ended without a result" if has_begun else "left the queue before it started"
    # What SLURM has forgotten was cancelled while it waited, which leaves no trace, or died long ago.
    was_killed = job.state not in BY_SOMEBODY if job else has_begun
    return replace(state, name="missing", error=f"its job {end}{word}", may_retry=was_killed)


def count_states(states: Iterable[CellState]) -> str:
    """Count cells by their states: ``3 done, 1 running``."""
    counts = Counter(state.name for state in states)
    return ", ".join(f"{counts[name]} {name}" for name in sorted(counts))


def studies_table(runs_dir: Path) -> str:
    """Return a line for each study in a folder, or that there is none.

    It reads small files, asks the queue, and waits for nothing.
    """
    rows = []
    for study in sorted(runs_dir.iterdir()):
        if StudyFolder(study).study_file.is_file():
            try:
                run_ids = read_listing(study).run_ids
            except UsageError as error:
                rows.append((str(study), "-", str(error)))
            else:
                states = survey(study, run_ids)
                rows.append((str(study), str(len(states)), count_states(states.values())))
    if not rows:
        return "no study; --runs-dir names another folder of runs"
    return format_table([("study", "cells", "state"), *rows])


def describe_time_left(states: Collection[CellState], at_work: int | None = None) -> str:
    """Say how many cells have ended, and about how long the others take.

    Each is taken to last as long as those that are done did on average: seeds vary slowest, so these are of
    all variants and sizes alike. What running cells have behind them is not counted.

    Args:
        states: Of all cells that are due.
        at_work: Cells at the same time; None takes those that are at work now.

    Returns:
        One line; empty where nothing is at work, done or left.
    """
    num_left = sum(state.name not in ("done", "failed") for state in states)
    at_work = at_work or sum(state.name == "running" for state in states)
    seconds = [
        state.finished_s - state.started_s
        for state in states
        if state.name == "done" and 0 < state.started_s < state.finished_s  # not from an archive
    ]
    if not (num_left and at_work and seconds):
        return ""
    rounds = max(1.0, num_left / at_work)
    return f"{len(states) - num_left} of {len(states)} cells, about {duration(fmean(seconds) * rounds)} left"
