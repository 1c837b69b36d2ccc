"""The state of a study's cells, kept in small files so that any shell can read it later.

``<study>/cells/<family>--<variant>--seed<N>-<hash>.json`` is written by the worker that has the cell. What a
dead worker left behind is recognised by its process id, so no state needs cleaning up by hand.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import psutil

from base.files import write_text
from base.progress import duration
from pretrain.run.folders import RunFolder, StudyFolder

StateName = Literal["waiting", "queued", "running", "done", "failed", "missing"]
Stage = Literal["pretrain", "evaluate"]


@dataclass(frozen=True, kw_only=True)
class CellState:
    """What is known of a cell.

    ``waiting`` was never handed to anyone; ``queued`` waits in SLURM; ``missing`` was handed out or started,
    but is gone and left no result. ``failed`` ended with an error of its own and would again.
    """

    name: StateName = "waiting"
    stage: Stage = "pretrain"
    pid: int = 0
    host: str = ""
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
    """Read a cell's state; a running cell whose process is dead on this host is ``missing``."""
    try:
        state = CellState(**json.loads(StudyFolder(study_dir).cell_file(run_id).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return CellState()
    except (json.JSONDecodeError, TypeError):
        return CellState(name="missing", error="its state file cannot be read")
    if state.name == "running" and state.host == socket.gethostname() and not _is_alive(state):
        error = state.error or "its process ended without a result"
        return replace(state, name="missing", may_retry=True, error=error)
    return state


def write_state(study_dir: Path, run_id: str, state: CellState) -> None:
    """Replace a cell's state in one step, so that a reader never sees half of it."""
    write_text(StudyFolder(study_dir).cell_file(run_id), json.dumps(asdict(state), indent=1))


def is_own(study_dir: Path, run_id: str, state: CellState) -> bool:
    """Whether a cell is still in the hands that wrote ``state``: another attempt may have taken it."""
    now = read_state(study_dir, run_id)
    return (now.pid, now.host, now.started_s) == (state.pid, state.host, state.started_s)


def start_state(study_dir: Path, run_id: str, log: str, job: str = "") -> CellState:
    """Mark a cell as running in this process and count the attempt."""
    state = CellState(
        name="running",
        pid=os.getpid(),
        host=socket.gethostname(),
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
    try:
        with RunFolder(folder).metrics_file.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 8192))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return {}
    progress: dict[str, float] = {}
    for line in reversed(lines):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        for key in ("step", "max_steps", "loss", "eval_loss", "tokens_per_s", "time_s"):
            if key in record and key not in progress:
                progress[key] = record[key]
        if "loss" in progress and "max_steps" in progress:
            break
    return progress


def describe(state: CellState, folder: Path) -> str:
    """Say in a few words what a running cell is doing and when its training will end."""
    if state.stage == "evaluate":
        return "evaluating"
    progress = read_progress(folder)
    if not progress.get("max_steps"):
        return "starting"
    step, max_steps = int(progress["step"]), int(progress["max_steps"])
    words = f"step {step}/{max_steps}"
    if "loss" in progress:
        words += f", loss {progress['loss']:.3f}"
    if "tokens_per_s" in progress:
        words += f", {progress['tokens_per_s']:,.0f} tokens/s"
    if 0 < step < max_steps and "time_s" in progress:
        words += f", {duration(progress['time_s'] * (max_steps - step) / step)} left"
    return words


def _is_alive(state: CellState) -> bool:
    """Whether the worker of a running cell still runs, and its process id was not given to another since."""
    try:
        process = psutil.Process(state.pid)
        # A killed process whose parent does not collect it still has an entry.
        return process.status() != psutil.STATUS_ZOMBIE and process.create_time() <= state.started_s
    except psutil.NoSuchProcess:
        return False
