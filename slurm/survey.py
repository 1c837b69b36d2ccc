"""Which cells a study has, by its folder alone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from base.config_input import read_yaml
from base.errors import UsageError
from base.files import mapping
from base.progress import duration
from base.run.folders import StudyFolder
from base.system import is_locked
from base.wording import format_table
from scores.stages import MAIN, SHARED, STAGES, TUNE, is_cut_off
from scores.tuning import read_tuning
from slurm.cell_state import CellState, read_state
from slurm.cluster import Queue, living_arrays, read_queue, report_name


@dataclass(frozen=True)
class StudyListing:
    """A study's cells.

    Args:
        run_ids: Their runs.
        note: What a reader must know of where they are from; empty where they are as submitted.
        goes_on: Whether there may be more later.
    """

    run_ids: tuple[str, ...]
    note: str = ""
    goes_on: bool = False


def read_listing(study: Path) -> StudyListing:
    """List the cells of a study, as its folder names them.

    Where its ``study.yaml`` does not name them they are those that were begun.

    Raises:
        UsageError: If the folder is not that of a submitted study.
    """
    file = StudyFolder(study).study_file
    begun = _begun(study)
    if not file.is_file() and not begun:
        raise UsageError(f"{study} holds no {file.name}; name a study's YAML file or its folder below runs/")
    content = _read(file)
    cells = content.get("cells")
    if (
        isinstance(cells, list)
        and cells
        and not is_cut_off(content)
        and all(isinstance(cell, str) for cell in cells)
    ):
        goes_on = content.get("until") is not None or _tunes(study, content)
        return StudyListing(tuple(cells), goes_on=goes_on)
    if not begun:
        raise UsageError(f"{file} names no cells, and none was begun; submit the study again")
    note = (
        f"note: {file} is missing or damaged, so these are the {len(begun)} cells that were begun; "
        "ffn-ablations study run writes it again"
    )
    return StudyListing(begun, note)


def read_levels(study: Path) -> dict[str, dict[str, str]]:
    """Read from a study's folder what folders of runs do not tell.

    Returns:
        By run id the level of its variant (``variant``), and its level on each axis by the axis's name;
        nothing for runs whose folder tells all, and where ``study.yaml`` is missing or damaged.
    """
    levels = _read(StudyFolder(study).study_file).get("levels")
    return {
        str(run_id): {str(axis): str(level) for axis, level in told.items()}
        for run_id, told in (levels.items() if isinstance(levels, dict) else ())
        if isinstance(told, dict)
    }


def read_to_come(study: Path) -> tuple[dict[str, str], dict[str, int]]:
    """Read from a study's folder which stages its cells are of, and what follows them.

    Returns:
        By run id its stage, for those that are not (only) of the main one; and by stage the number of cells
        that are due once the tuning has chosen. Both are empty where ``study.yaml`` says nothing of it.
    """
    content = _read(StudyFolder(study).study_file)
    stages, to_come = mapping(content.get("stages")), mapping(content.get("to_come"))
    of = {
        str(run_id): str(stage)
        for stage, run_ids in stages.items()
        for run_id in (run_ids if isinstance(run_ids, list) else ())
    }
    return of, {str(stage): number for stage, number in to_come.items() if isinstance(number, int)}


def tell_levels(run_id: str, levels: Mapping[str, str]) -> str:
    """Say what a run's folder does not: ``kan grid_size=3, size 0.1M``; empty where it tells all.

    Args:
        run_id: ``family/variant/run``.
        levels: Its variant's (``variant``), and those on axes by their names.
    """
    folder = run_id.split("/")[1:2]
    told = [
        level if axis == "variant" else f"{axis} {level}"
        for axis, level in levels.items()
        if axis != "variant" or [level] != folder
    ]
    return ", ".join(told)


def _tunes(study: Path, content: Mapping[str, Any]) -> bool:
    """Whether a study has not chosen all that it tunes."""
    if TUNE not in mapping(content.get("stages")):
        return False
    tuning = read_tuning(study)
    return tuning is None or not tuning.is_over


def _begun(study: Path) -> tuple[str, ...]:
    folder = StudyFolder(study)
    runs = (run.run_id for run in folder.run_folders() if run.is_run)
    return tuple(sorted({*folder.cell_files(), *runs}))


def _read(file: Path) -> dict[str, object]:
    try:
        return read_yaml(file)
    except UsageError:
        return {}


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


def studies_table(runs_dir: Path) -> str:
    """Return a line for each study in a folder, or that there is none.

    It reads small files, asks the queue, and waits for nothing.
    """
    studies = [path for path in sorted(runs_dir.iterdir()) if StudyFolder(path).study_file.is_file()]
    if not studies:
        return "no study; --runs-dir names another folder of runs"
    return format_table([("study", "cells", "state"), *map(_row, studies)])


def _row(study: Path) -> tuple[str, str, str]:
    try:
        run_ids = read_listing(study).run_ids
    except UsageError as error:
        return str(study), "-", str(error)
    counts = Counter(state.name for state in survey(study, run_ids).values())
    return str(study), str(len(run_ids)), ", ".join(f"{counts[name]} {name}" for name in sorted(counts))


NAMES = {TUNE: "tuning cells", MAIN: "cells", SHARED: "cells at the shared rate"}
"""What cells are called, by their stage."""
COSTLESS = "optim."
"""Axes that begin so change no duration."""


@dataclass(frozen=True)
class CellTime:
    """A cell, and what it has in common with others that take as long.

    Attributes:
        kind: Its family, its variant, and its level on each axis.
    """

    stage: str
    kind: tuple[str, ...]
    state: CellState

    @property
    def has_ended(self) -> bool:
        """Whether it is done or failed."""
        return self.state.name in ("done", "failed")


def kind_of(run_id: str, levels: Mapping[str, str]) -> tuple[str, ...]:
    """Return what a cell's duration depends on.

    Args:
        run_id: ``family/variant/run``.
        levels: Its variant's level (``variant``), and those on axes by their names.
    """
    family, variant = run_id.split("/")[:2]
    places = (level for axis, level in levels.items() if axis != "variant" and not axis.startswith(COSTLESS))
    return (family, levels.get("variant", variant), *places)


def tell_time_left(
    cells: Sequence[CellTime],
    to_come: Mapping[str, int] | None = None,
    at_work: int | None = None,
    now_s: float | None = None,
) -> str:
    """Say how many cells of each stage have ended, and how long the others take.

    A cell lasts as long as those of its kind and stage that are done did on average; else as those of its
    kind, else as all.

    Args:
        cells: All that are due.
        to_come: Stages that follow, and how many cells they will have.
        at_work: Cells at the same time; None takes those that are at work now.
        now_s: Seconds since the epoch.

    Returns:
        One line; empty where nothing is at work or left.
    """
    at_work = at_work or sum(cell.state.name == "running" for cell in cells)
    num_ended = sum(cell.has_ended for cell in cells)
    if not at_work or not (num_ended < len(cells) or to_come):
        return ""
    durations = _durations(cells)
    if None not in durations:
        return f"{num_ended} of {len(cells)} cells, time left not known until one is done"
    now_s = time.time() if now_s is None else now_s
    parts = []
    for stage in STAGES:
        of_stage = [cell for cell in cells if cell.stage == stage]
        seconds = [_left_s(cell, durations, now_s) for cell in of_stage if not cell.has_ended]
        if seconds:
            ended = f"{len(of_stage) - len(seconds)} of {len(of_stage)} {NAMES[stage]}"
            parts.append(f"{ended}, {_about(seconds, at_work)} left")
    to_come_s = _mean_to_come(cells, durations)
    for stage, number in (to_come or {}).items():
        most, name = (
            "up to " * (stage == SHARED),
            "main cells" if stage == MAIN else NAMES.get(stage, f"{stage} cells"),
        )
        parts.append(f"{most}{number} {name}, {_about([to_come_s] * number, at_work)}")
    return "; then ".join(parts)


def _keys(cell: CellTime) -> tuple[Hashable, ...]:
    """From what is most like a cell to all cells: main cells are evaluated, and those of a tuning are not."""
    return (cell.stage, cell.kind), cell.kind, None


def _durations(cells: Iterable[CellTime]) -> dict[Hashable, list[float]]:
    """Return by key the seconds that cells took which are done; of archived ones nobody knows."""
    durations: dict[Hashable, list[float]] = {}
    for cell in cells:
        if cell.state.name == "done" and 0 < cell.state.started_s < cell.state.finished_s:
            for key in _keys(cell):
                durations.setdefault(key, []).append(cell.state.finished_s - cell.state.started_s)
    return durations


def _left_s(cell: CellTime, durations: Mapping[Hashable, list[float]], now_s: float) -> float:
    whole_s = next(fmean(durations[key]) for key in _keys(cell) if key in durations)
    return max(0.0, whole_s - (now_s - cell.state.started_s)) if cell.state.name == "running" else whole_s


def _mean_to_come(cells: Sequence[CellTime], durations: Mapping[Hashable, list[float]]) -> float:
    """Seconds of a cell that is to come: slow kinds may be tuned last, and no cell beyond tuning has them."""
    kinds = {cell.kind for cell in cells} - {cell.kind for cell in cells if cell.stage != TUNE}
    return fmean([fmean(durations[kind]) for kind in kinds if kind in durations] or durations[None])


def _about(seconds: Sequence[float], at_work: int) -> str:
    """Time until the last has ended: shared evenly, and no less than the longest takes."""
    return f"about {duration(max(sum(seconds) / at_work, max(seconds, default=0.0)))}"
