"""Handing cells to SLURM: arrays of jobs through submitit, and a job behind them that reports and goes on.

Runs are idempotent, so nothing here keeps a job from being handed in twice: the second says that its cells
are finished, and ends. What a killed command left out is handed in by the same command.
"""

from __future__ import annotations

import os
import secrets
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import submitit
from filelock import FileLock, Timeout
from submitit.core.utils import FailedJobError, FailedSubmissionError
from submitit.helpers import clean_env

from base.errors import UsageError
from base.run.folder_names import StudyFolder
from slurm.arguments import SubmitArgs
from slurm.cell_state import queued_state, survey
from slurm.cluster import (
    ClusterPreset,
    cells_name,
    first_start,
    living_arrays,
    max_array_size,
    minutes_of,
    read_queue,
    report_name,
    scancel,
)
from slurm.next_stage import end_stage
from slurm.snapshot import snapshot_environment
from slurm.study.cells import Cell, own_variants
from slurm.study.study import Study
from slurm.todo import find_todo, in_parts
from slurm.worker import CellJob

REPORT_MINUTES = 120
MAX_ROUNDS = 2
"""How often what died without a word is submitted again before a user has to look."""
SUBMITTER_WAIT_S = 900.0


class SlurmSubmitter:
    """Submits one study's jobs. Whoever calls it holds the study's lock.

    Args:
        study: The study.
        preset: What the site wants to be told.
        options: How cells become jobs.
        snapshot: Folder of the code that the jobs run.
    """

    def __init__(self, study: Study, preset: ClusterPreset, options: SubmitArgs, snapshot: Path) -> None:
        self.study, self.preset, self.options, self.snapshot = study, preset, options, snapshot

    def submit_cells(self, cells: Sequence[Cell]) -> list[submitit.Job[None]]:
        """Submit cells as arrays of at most the site's size; returns their jobs.

        A report job that waits is cancelled first: it would not wait for these.

        Raises:
            UsageError: If SLURM refuses.
        """
        self._cancel_waiting_report()
        jobs: list[submitit.Job[None]] = []
        for chunk in in_parts(in_parts(cells, self.options.cells_per_process), max_array_size()):
            # Arrays are throttled one by one, so where there is a bound the next waits for the last.
            after = [jobs[-1].job_id.split("_")[0]] if jobs and self._max_running else []
            with _asking_slurm():
                handed = self._cells_executor(len(chunk), after).map_array(CellJob(), chunk)
            for job, batch in zip(handed, chunk, strict=True):
                for cell in batch:
                    queued_state(cell.study_dir, cell.run_id, job.job_id)
            jobs += handed
        return jobs

    def submit_report(self, round_: int = 0) -> str | None:
        """Have a job that runs when all of the study that is queued or running has ended, however it did.

        One that waits is replaced: it may be of a command that was killed before the job's file lay there.

        Returns:
            SLURM's id of that job; None where no cell is queued or running.

        Raises:
            UsageError: If SLURM refuses or does not answer.
        """
        folder = self.study.folder
        queue = read_queue(folder)
        if queue is None:
            raise UsageError("SLURM does not answer; the same command submits the job that writes the report")
        awaited = living_arrays(queue, cells_name(folder))
        if not awaited:
            return None
        self._cancel_waiting_report()
        executor = self._executor(
            partition=self.preset.report_partition or self.preset.partition,
            job_name=report_name(folder),
            time=min(REPORT_MINUTES, minutes_of(self.preset.time)),
            cpus_per_task=1,
            dependency=f"afterany:{':'.join(awaited)}",
        )
        with _asking_slurm():
            return executor.submit(ReportJob(self, round_)).job_id

    def asked(self, num_cells: int) -> str:
        """What the cells' jobs ask SLURM for, an option a line, and what runs before Python starts."""
        num_jobs = -(-num_cells // self.options.cells_per_process)
        options = dict(self._cells_executor(num_jobs, []).parameters)
        options |= {"array": f"0-{num_jobs - 1}%{options.pop('array_parallelism')}"}
        setup, more = options.pop("setup"), options.pop("additional_parameters")
        words = {name.replace("_", "-"): value for name, value in (options | more).items()}
        lines = [f"  {name}" + ("" if value is True else f" {value}") for name, value in words.items()]
        return "\n".join([*lines, "before Python starts:", *(f"  {line}" for line in setup)])

    def first_start(self, num_cells: int) -> str:
        """When and where SLURM would start the first of the cells' jobs, if they were submitted now.

        Raises:
            UsageError: If SLURM would refuse them.
        """
        executor = self._cells_executor(-(-num_cells // self.options.cells_per_process), [])
        with _asking_slurm():
            return first_start(executor._make_submission_file_text("true", uid=""))

    def _cancel_waiting_report(self) -> None:
        scancel("--me", f"--name={report_name(self.study.folder)}", "--state=PENDING")

    @cached_property
    def _folder(self) -> Path:
        """A new one, so that a job finds no file of whoever had the study's folder before."""
        now = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        return StudyFolder(self.study.folder).jobs_dir.resolve() / now

    @property
    def _max_running(self) -> int | None:
        return self.options.max_running or self.preset.max_running

    def _cells_executor(self, num_jobs: int, after: Sequence[str]) -> submitit.SlurmExecutor:
        preset, at_once = self.preset, self.options.cells_at_once
        return self._executor(
            partition=preset.partition,
            job_name=cells_name(self.study.folder),
            time=minutes_of(preset.time),
            nodes=1,
            ntasks_per_node=at_once,
            cpus_per_task=max(1, preset.cpus_per_task // at_once),
            gpus_per_node=preset.gpus_per_node or None,
            mem=f"{round(preset.mem_gb * 1024)}M" if preset.mem_gb else None,
            array_parallelism=self._max_running or num_jobs,
            dependency=f"afterany:{':'.join(after)}" if after else None,
        )

    def _executor(self, **parameters: Any) -> submitit.SlurmExecutor:
        """Make what submits jobs; a parameter of None is left to the site's default."""
        preset = self.preset
        parameters |= {
            "account": preset.account,
            "qos": preset.qos,
            "constraint": preset.constraint,
            "signal_delay_s": preset.signal_delay_s,
            "setup": self._setup(),
            "additional_parameters": preset.options,
        }
        executor = submitit.SlurmExecutor(folder=self._folder, max_num_timeout=preset.max_timeouts)
        executor.update_parameters(**{name: value for name, value in parameters.items() if value is not None})
        return executor

    def _setup(self) -> list[str]:
        # Since SLURM 22.05 srun does not take the cores of a task from the job.
        cores = dict.fromkeys(("OMP_NUM_THREADS", "SRUN_CPUS_PER_TASK"), "${SLURM_CPUS_PER_TASK:-1}")
        code = {name: shlex.quote(value) for name, value in snapshot_environment(self.snapshot).items()}
        return [
            "set -e  # a failing line ends the job",
            *(f"module load {shlex.quote(name)}" for name in self.preset.modules),
            *self.preset.setup,
            *(f"export {name}={value}" for name, value in (cores | code).items()),
        ]


@dataclass
class ReportJob:
    """Runs when every cell's job has ended: tries killed cells again, writes the report, and goes on.

    It goes on with the next round of tuning, with runs at what was chosen, or with more seeds.

    Args:
        submitter: Submits again.
        round: How often that was done before.
    """

    submitter: SlurmSubmitter
    round: int = 0

    def __call__(self) -> None:
        study = self.submitter.study
        _load_own(study)
        self._hand_in(self._try_again)
        later = end_stage(study)
        if len(later.cells) > len(study.cells):
            self._hand_in(lambda: self._go_on(later))

    def _hand_in(self, work: Callable[[], None]) -> None:
        """Do what submits, unless a newer job of this kind stands for this one."""
        folder = self.submitter.study.folder
        try:
            with FileLock(StudyFolder(folder).submit_lock_file).acquire(timeout=SUBMITTER_WAIT_S):
                reports = living_arrays(read_queue(folder) or {}, report_name(folder))
                if reports[-1:] in ([], [os.environ.get("SLURM_JOB_ID")]):
                    work()
        except (UsageError, Timeout) as error:
            print(f"what follows is not submitted, or not all of it: {error}", flush=True)

    def _try_again(self) -> None:
        study = self.submitter.study
        states = survey(study.folder, [cell.run_id for cell in study.cells])
        todo = [cell for cell in study.cells if states[cell.run_id].may_retry]
        if todo and self.round < MAX_ROUNDS:
            self.submitter.submit_cells(todo)
            print(f"{len(todo)} cells were killed and are submitted again", flush=True)
        self.submitter.submit_report(self.round + 1)  # also behind cells that another command handed in

    def _go_on(self, study: Study) -> None:
        """Submit what the next stage needs: a round of tuning, or runs at what was chosen."""
        study.write()
        before = self.submitter
        submitter = SlurmSubmitter(study, before.preset, before.options, before.snapshot)
        # If this job was stopped before it ended, and runs again, they may be submitted, or done.
        if cells := find_todo(study, retry_failed=False).cells:
            submitter.submit_cells(cells)
            print(f"{len(cells)} cells are submitted for what comes next", flush=True)
        if submitter.submit_report() is None:
            end_stage(study)


def _load_own(study: Study) -> None:
    """Load variants that are in files; without one it is not known whether its runs are of another source."""
    for variant in own_variants(study.planned):
        try:
            variant.load()
        except UsageError as error:
            print(f"note: {error}", flush=True)


@contextmanager
def _asking_slurm() -> Iterator[None]:
    """Call sbatch as a login shell does: of the variables of a job it would take some for options.

    Raises:
        UsageError: If it fails.
    """
    # clean_env takes away every variable that begins with SLURM_, and SLURM_CONF says where the cluster is.
    cluster = {"SLURM_CONF": os.environ["SLURM_CONF"]} if "SLURM_CONF" in os.environ else {}
    try:
        with clean_env():
            os.environ.update(cluster)
            yield
    except (FailedJobError, FailedSubmissionError, OSError) as error:
        words = " ".join(str(error).split())[-400:]
        raise UsageError(f"sbatch refused the jobs: {words}; change that in the preset") from None
