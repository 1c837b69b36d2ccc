"""Cancel a study: its jobs in the queue, or the command that runs it on this machine.

    ffn-ablations study cancel runs/quickstart

What runs is saved first; submitting the study again continues.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import psutil

from base.command_line import Positional, parse_flags
from base.errors import UsageError
from base.run.folders import StudyFolder
from base.sections import Section
from base.system import is_locked
from slurm.arguments import runs_dir_override
from slurm.queue.squeue import cancel, cells_name, living_arrays, read_queue, report_name
from slurm.state.listing import read_listing


class CancelArgs(Section):
    """Cancel a study."""

    study: Positional[Path]
    """The study's folder below runs/, its YAML file, or the name of a shipped one."""
    runs_dir: Path | None = None
    """Folder of all runs, if the study was submitted with --runs-dir."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = parse_flags(CancelArgs, args, prog="ffn-ablations study cancel", description=__doc__)
    if options.study.is_dir():
        read_listing(options.study)  # refuses what is no study's folder
        return cancel_study(options.study)
    from slurm.study.study import folder_of_own, load_study

    overrides = runs_dir_override(options.runs_dir)
    own = folder_of_own(options.study, overrides)  # of a study that brings code, of which nothing is run
    return cancel_study(own or load_study(options.study, overrides).folder)


def cancel_study(study_dir: Path) -> int:
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
    return 0


def _cancel_jobs(study_dir: Path) -> list[str]:
    """Cancel jobs by their names; the report job first, which would take cancelled cells for ended ones."""
    if shutil.which("squeue") is None:
        return []
    queue = read_queue(study_dir)
    if queue is None and not any(path.is_dir() for path in StudyFolder(study_dir).jobs_dir.glob("*")):
        return []  # nothing was ever handed to it
    if queue is None:
        raise UsageError("SLURM does not answer, so no job was cancelled; try again where squeue works")
    cancelled = []
    for name in (report_name(study_dir), cells_name(study_dir)):
        if arrays := living_arrays(queue, name):
            cancel("--me", f"--name={name}")
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
        raise UsageError(
            f"{study_dir}: its command runs on another machine, or as another user; stop it there"
        )
    return [f"process {pid}" for pid in holders]


def _has_open(process: psutil.Process, file: Path) -> bool:
    try:
        return process.pid != os.getpid() and any(Path(one.path) == file for one in process.open_files())
    except (psutil.Error, OSError):
        return False
