"""Cancel a study: its jobs in the queue, or the command that runs it on this machine.

    ffn-ablations study cancel runs/quickstart

What runs is saved first; submitting the study again continues.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil

from base.command_line import Positional, parse_flags
from base.errors import OccupiedError, UsageError
from base.sections import Section
from pretrain.run.folders import StudyFolder
from pretrain.run.machine import is_here
from slurm.arguments import runs_dir_override
from slurm.queue.settle import settle
from slurm.queue.squeue import cancel, read_queue
from slurm.queue.submissions import read_submissions, sole_submitter
from slurm.state.cell_state import read_state
from slurm.state.launcher import Launcher, read_launcher
from slurm.state.life import lives_here
from slurm.state.listing import read_listing

COMMANDS = ("ffn-ablations", "ffn_ablations")
"""How a study is run, besides by a module of ``slurm``."""


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
    cancelled = [*_cancel_jobs(study_dir), *(_stop_launcher(study_dir) or _stop_workers(study_dir))]
    if not cancelled and _is_being_submitted(study_dir):
        raise UsageError(f"{study_dir} is being submitted just now; stop that command, or wait for its end")
    print(f"cancelled: {', '.join(cancelled)}" if cancelled else "nothing of this study is queued or running")
    return 0


def _cancel_jobs(study_dir: Path) -> list[str]:
    """Cancel jobs that SLURM knows by a name of this study, whatever a file says."""
    if not StudyFolder(study_dir).submissions_dir.is_dir():
        return []
    try:
        with sole_submitter(study_dir):
            queue = settle(study_dir)
    except OccupiedError:
        queue = read_queue()
    if queue is None:
        raise UsageError("SLURM does not answer, so nothing was cancelled; try again where squeue works")
    alive = (job for one in read_submissions(study_dir) for job in one.jobs_in(queue, study_dir))
    # The last job first: it would take cancelled cells for ended ones and write its report.
    arrays = sorted({job_id.split("_")[0] for job_id in alive}, key=int, reverse=True)
    if arrays:
        try:
            cancel(arrays)
        except (OSError, subprocess.SubprocessError) as error:
            said = " ".join(str(getattr(error, "stderr", None) or error).split())
            raise UsageError(f"scancel failed: {said[-300:]}; give the same command again") from None
    return [f"SLURM {array}" for array in arrays]


def _is_being_submitted(study_dir: Path) -> bool:
    if not study_dir.is_dir():
        return False
    try:
        with sole_submitter(study_dir):
            return False
    except OccupiedError:
        return True


def _stop_launcher(study_dir: Path) -> list[str]:
    launcher = read_launcher(study_dir)
    if launcher is None:
        return []
    if not launcher.is_here:
        raise UsageError(
            f"the study runs on {launcher.host} ({launcher.words}); cancel it there. If that machine is no "
            "more, ffn-ablations study run goes on here"
        )
    if not _runs_study(launcher, study_dir):
        return []
    os.kill(launcher.pid, signal.SIGTERM)  # it ends its cells, which save first
    return [f"process {launcher.pid}"]


def _runs_study(launcher: Launcher, study_dir: Path) -> bool:
    """Whether a process is a command of this very study: it says so, and it holds the study's lock."""
    lock_file = StudyFolder(study_dir).submit_lock_file.resolve()
    try:
        process = psutil.Process(launcher.pid)
        is_command = any("slurm" in word or Path(word).name in COMMANDS for word in process.cmdline())
        return is_command and any(Path(file.path) == lock_file for file in process.open_files())
    except psutil.Error:
        return False


def _stop_workers(study_dir: Path) -> list[str]:
    """Stop workers whose command was killed; they save first."""
    folder, stopped = StudyFolder(study_dir), []
    for run_id in folder.cell_files():
        state = read_state(study_dir, run_id)
        if state.name != "running" or state.job or not is_here(state.machine, state.host):
            continue
        if lives_here(state.pid, state.started_s) and _is_worker(state.pid, folder):
            os.kill(state.pid, signal.SIGUSR1)
            stopped.append(f"process {state.pid}")
    return stopped


def _is_worker(pid: int, folder: StudyFolder) -> bool:
    """Whether a process is a worker of this very study: its command names the folder of its jobs."""
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return False
    return any("submitit" in word for word in words) and any(
        Path(word).resolve() == folder.jobs_dir.resolve() for word in words[1:] if word.startswith(("/", "."))
    )
