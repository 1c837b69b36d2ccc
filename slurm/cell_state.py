"""The state of a study's cells, kept in small files so that any shell can read it later.

``<study>/cells/<family>--<variant>--seed<N>-<hash>.json`` is written by whoever hands the cell to SLURM, and
by the worker that has it. A worker holds the ``.lock`` beside it, which the system releases however it dies,
so no state needs cleaning up by hand.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeGuard

from base.errors import OccupiedError
from base.files import mapping, sole_holder
from base.printing import duration
from base.records import parse_json, read_record, write_record
from base.run.folder_names import RunFolder, StudyFolder
from base.system import is_locked
from scores.stages import TUNE

StateName = Literal["waiting", "queued", "running", "done", "failed", "missing", "diverged"]
Part = Literal["pretrain", "evaluate"]
LARGEST = 1e15
"""Steps and losses of a log that are beyond are damage."""


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
    may_retry: bool = False
    """Whether it was killed without a word, so that another try may well succeed."""


def read_state(study_dir: Path, run_id: str) -> CellState:
    """Read a cell's state; ``waiting`` where there is none, or a damaged one, which is set aside.

    A cell that runs outside of SLURM is ``missing`` if no process holds it; one that an archive brought back
    is ``done``.
    """
    folder = StudyFolder(study_dir)
    file, lock = folder.cell_file(run_id), folder.cell_lock_file(run_id)
    state = read_record(file, CellState) or CellState()
    if state.name == "running" and not state.job and not is_locked(lock):
        state = read_record(file, CellState) or state  # a process lets go after it has written how it ended
        if state.name == "running":
            error = state.error or "its process ended without a result"
            return replace(state, name="missing", may_retry=True, error=error)
    is_restored = state.name == "waiting" and folder.run(run_id).is_archived
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


def as_result(state: CellState, run: Path, stage: str) -> CellState:
    """Return a state as a reader is shown it: a tuning run that diverged is no failure but a result."""
    if stage == TUNE and state.name == "failed" and RunFolder(run).has_diverged:
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
    for record in logged(folder, last_bytes=8192):
        newest |= record
    return newest


def logged(folder: Path, last_bytes: int | None = None) -> Iterator[dict[str, float]]:
    """Yield the numbers of each line of a run's ``metrics.jsonl``; a line that is cut off is passed over.

    Args:
        folder: The run's.
        last_bytes: How much of the file's end is read; None for all of it.
    """
    try:
        with RunFolder(folder).metrics_file.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0 if last_bytes is None else max(0, size - last_bytes))
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        with suppress(ValueError):
            yield {key: value for key, value in mapping(parse_json(line)).items() if _is_number(value)}


def _is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value from a file is one to show: finite, and not beyond all measure."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


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
