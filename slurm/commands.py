"""The commands of a study: run it, show where it stands, cancel it. Nothing here loads torch by itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import psutil
from pydantic import Field

from base.command_line import Positional, parse_flags
from base.config_input import find_study_folder, shipped
from base.errors import UsageError
from base.other_names import OtherNames
from base.printing import duration, format_table
from base.run.folder_names import StudyFolder
from base.sections import Section
from base.system import is_locked
from scores.stages import TUNE
from scores.tuning_trials import read_tuning
from slurm import cell_state
from slurm.arguments import SubmitArgs, runs_dir_override
from slurm.cluster import cells_name, living_arrays, preset_of, read_queue, report_name, scancel


def study_run(args: Sequence[str] | None = None) -> int:
    """Run a study; returns 1 where cells of it are left."""
    options = parse_flags(SubmitArgs, args, prog="ffn-ablations study run")
    if options.cluster == "slurm":
        preset = preset_of(options)
        if options.preset is None:
            asked = f"{preset.gpus_per_node} GPU, {preset.cpus_per_task} cores and {preset.time}"
            print(f"note: without --preset a job asks for {asked}; there are {', '.join(shipped('preset'))}")

    from slurm.launch import launch  # torch is slow to load

    return launch(options)


CLEAR = "\033[2J\033[H"


class CancelArgs(Section):
    """Cancel a study: its jobs in the queue, or the command that runs it on this machine.

        ffn-ablations study cancel runs/quickstart

    What runs is saved first; submitting the study again continues.
    """

    study: Positional[Path]
    """The study's folder below runs/, its YAML file, or the name of a shipped one."""
    runs_dir: Path | None = None
    """Folder of all runs, if the study was submitted with --runs-dir."""


class StatusArgs(CancelArgs):
    """Show every cell of a study: waiting, queued, running, done, failed or missing.

        ffn-ablations study status quickstart            # what is in runs/quickstart
        ffn-ablations study status quickstart --watch

    Reads the study's files and asks SLURM once, where the study has jobs; works from any shell, at any time.
    """

    hints: ClassVar = OtherNames("study status")

    watch: bool = False
    """Show it again and again until no cell is queued or running, and nobody is to go on with the study."""
    every: Annotated[float, Field(ge=0.1, le=86_400)] = 10.0
    """With --watch: seconds in between."""


def study_status(args: Sequence[str] | None = None) -> None:
    """Show where a study stands, once or again and again."""
    options = parse_flags(StatusArgs, args, prog="ffn-ablations study status")
    folder = _folder(options.study, options.runs_dir)
    while True:
        # Again each time: a round of tuning adds some.
        states = cell_state.survey(folder, cell_state.read_listing(folder).run_ids)
        text = render(folder, states)
        print(f"{CLEAR}{text}" if options.watch else text, flush=True)
        is_at_work = any(state.name in ("queued", "running") for state in states.values())
        if not options.watch or not (is_at_work or cell_state.is_followed(folder)):
            return
        time.sleep(options.every)


def _folder(study: Path, runs_dir: Path | None) -> Path:
    """Find the folder of a study by what was typed; nothing that the study names is run."""
    study = find_study_folder(study, runs_dir, is_begun=True)
    if study.is_dir():
        return study
    from slurm.study.study import folder_of

    folder = folder_of(study, runs_dir_override(runs_dir))
    if not folder.is_dir():
        raise UsageError(
            f"{study} was not submitted yet ({folder} is not there); ffn-ablations study run --dry-run "
            "shows its cells"
        )
    return folder


def render(folder: Path, states: Mapping[str, cell_state.CellState]) -> str:
    """Write one line a cell and one that counts them."""
    rows, notes = status_of(folder, states)
    has_levels = any(levels for _, levels, *_ in rows)
    return "\n".join([format_table([row if has_levels else (row[0], *row[2:]) for row in rows]), *notes])


def status_of(
    folder: Path, states: Mapping[str, cell_state.CellState]
) -> tuple[list[tuple[str, str, str, str]], list[str]]:
    """Return what there is to say of every cell, and of the whole study.

    Returns:
        Of every cell its run's id, its levels, the name of its state, and details; and lines on how far
        the tuning is, how long the rest takes, what is amiss, and how many cells are in which state.
    """
    listing = cell_state.peek_listing(folder)
    tuned = listing.stages.get(TUNE, ())
    shown = {
        run_id: cell_state.as_result(state, folder / run_id, run_id in tuned)
        for run_id, state in states.items()
    }
    rows: list[tuple[str, str, str, str]] = []
    for run_id, state in shown.items():
        levels = cell_state.describe_levels(run_id, listing.levels.get(run_id, {}))
        rows.append((run_id, levels, state.name, details(state, folder / run_id)))
    is_silent = any(state.error == cell_state.SILENT for state in states.values())
    silent = f"{cell_state.SILENT}; of cells in jobs stands what their files last said" * is_silent
    continues = _what_continues(f"{listing.typed} {listing.of_cells}".strip(), rows)
    notes = [silent, *_progress(folder), cell_state.describe_time_left(states.values()), continues]
    if all(state.name in ("done", "diverged") for state in shown.values()):
        notes.append(_of_report(folder, listing.typed, max(state.finished_s for state in states.values())))
    elif StudyFolder(folder).jobs_dir.is_dir():
        notes.append(f"logs: {StudyFolder(folder).jobs_dir}")
    return rows, [*filter(None, notes), f"{len(states)} cells: {cell_state.count_states(shown.values())}"]


def _what_continues(typed: str, rows: Sequence[tuple[str, str, str, str]]) -> str:
    """The command that runs what is left, where nobody is at work; empty where nothing is left."""
    names = {name for *_, name, _ in rows}
    if not typed or names & {"queued", "running"} or not names & {"waiting", "missing", "failed"}:
        return ""
    return f"to continue: ffn-ablations study run {typed}{' --retry-failed' * ('failed' in names)}"


def _of_report(folder: Path, typed: str, ended_s: float) -> str:
    """Where the report of cells that have ended is, or what writes it."""
    report = StudyFolder(folder).report_file
    if report.is_file() and report.stat().st_mtime >= ended_s:
        return f"report: {report}"
    if cell_state.is_followed(folder):
        return f"its report, or more cells, follow by themselves; now: ffn-ablations report {folder}"
    return f"no report of these yet: ffn-ablations {f'study run {typed}' if typed else f'report {folder}'}"


def details(state: cell_state.CellState, folder: Path) -> str:
    """What a reader wants to know of a cell in its state: where it stands, where it runs, what went wrong."""
    if state.name == "running":
        attempt = f", attempt {state.attempts}" if state.attempts > 1 else ""
        return f"{cell_state.describe(state, folder)} on {state.host}{_job(state)}{attempt}"
    if state.name == "queued":
        return f"{state.error}{_job(state)}".strip(" ,")
    if state.name == "diverged":
        return "a result: its value counts as infinitely bad"
    if state.name == "done":
        return f"in {duration(state.finished_s - state.started_s)}" if state.started_s else "from an archive"
    if state.name in ("failed", "missing"):
        return f"{state.error} (attempt {state.attempts}{_job(state)}, log: {state.log or 'none'})"
    return ""


def _progress(folder: Path) -> Iterator[str]:
    """Say what the tuning has chosen, or that its file is damaged."""
    try:
        tuning = read_tuning(folder)
    except UsageError as error:
        yield f"note: {error}"
    else:
        if tuning:
            yield tuning.progress


def _job(state: cell_state.CellState) -> str:
    return f", job {state.job}" if state.job else ""


def study_cancel(args: Sequence[str] | None = None) -> None:
    """Cancel a study."""
    options = parse_flags(CancelArgs, args, prog="ffn-ablations study cancel")
    folder = _folder(options.study, options.runs_dir)
    cell_state.read_listing(folder)  # refuses what is no study's folder
    cancel_study(folder)


def cancel_study(study_dir: Path) -> None:
    """Cancel what is queued or running of a study.

    Raises:
        UsageError: If SLURM does not answer, or the study runs on another machine.
    """
    # The command first, which would hand in more; told at once, as SLURM may not answer.
    stopped = _stop_command(study_dir)
    if stopped:
        print(f"cancelled: {', '.join(stopped)}", flush=True)
    if jobs := _cancel_jobs(study_dir):
        print(f"cancelled: {', '.join(jobs)}")
    if not stopped and not jobs:
        print("nothing of this study is queued or running")


def _cancel_jobs(study_dir: Path) -> list[str]:
    """Cancel jobs by their names; the report job first, which would take cancelled cells for ended ones."""
    queue = read_queue(study_dir)
    if queue is None:
        if not any(path.is_dir() for path in StudyFolder(study_dir).jobs_dir.glob("*")):
            return []  # nothing was ever handed to it
        raise UsageError("SLURM does not answer, so its jobs go on; try again once squeue works")
    cancelled = []
    for name in (report_name(study_dir), cells_name(study_dir)):
        if arrays := living_arrays(queue, name):
            scancel("--me", f"--name={name}")
            cancelled += [f"SLURM {array}" for array in arrays]
    return cancelled


def _stop_command(study_dir: Path) -> list[str]:
    """Stop the command that runs or submits a study: it ends its workers, which save first."""
    lock_file = StudyFolder(study_dir).submit_lock_file.resolve()
    if not is_locked(lock_file):
        return []
    holders = [process.pid for process in psutil.process_iter() if _has_open(process, lock_file)]
    for pid in holders:
        os.kill(pid, signal.SIGTERM)
    if not holders:
        raise UsageError(f"{study_dir}: its command runs on another machine or as another user; end it there")
    return [f"process {pid}" for pid in holders]


def _has_open(process: psutil.Process, file: Path) -> bool:
    try:
        return process.pid != os.getpid() and any(Path(one.path) == file for one in process.open_files())
    except (psutil.Error, OSError):
        return False
