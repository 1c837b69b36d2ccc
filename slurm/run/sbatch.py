"""Handing cells to SLURM: arrays of jobs through submitit, and a last job that ends the study."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import submitit

from base.errors import UsageError
from pretrain.data.shares import cut_step
from pretrain.run.folders import StudyFolder
from slurm.queue.cluster import ClusterPreset, minutes_of
from slurm.queue.handover import hand_over, job_command
from slurm.queue.snapshot import snapshot_environment
from slurm.queue.squeue import max_array_size
from slurm.queue.submissions import Submission, new_key
from slurm.study.cells import Cell, trained_cells
from slurm.study.study import Study
from slurm.worker.job import CellJob, Layout

LAST_JOB_MINUTES = 120
_SPECIAL = re.compile(r"(\\\$|\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\})|[\\$`\"]")
"""What a shell heeds between double quotes; in the group what is meant so."""


@dataclass(frozen=True, kw_only=True)
class Packing:
    """How cells become jobs."""

    cells_per_job: int = 1
    cells_at_once: int = 1
    """Cells of a job that share its GPU, each in a process of its own."""
    max_running: int | None = None


class SlurmSubmitter:
    """Submits one study's jobs.

    Args:
        study: The study.
        preset: What the site wants to be told.
        packing: How cells become jobs.
        snapshot: Folder of the code that the jobs run.

    Raises:
        UsageError: If there is no SLURM here, or the packing or the rows of a step do not fit the preset.
    """

    def __init__(self, study: Study, preset: ClusterPreset, packing: Packing, snapshot: Path) -> None:
        self.study, self.preset, self.packing, self.snapshot = study, preset, packing, snapshot
        if preset.num_processes > 1 and max(packing.cells_per_job, packing.cells_at_once) > 1:
            raise UsageError(
                f"the preset trains each cell with {preset.num_processes} processes, so a job holds one "
                "cell; leave --cells-per-job and --cells-at-once out"
            )
        for cell in trained_cells((*study.planned, *study.cells)):
            cut_step(cell.config.train, preset.num_processes)
        if shutil.which("sbatch") is None or shutil.which("srun") is None:
            raise UsageError(
                "no SLURM here: sbatch is not on the PATH; log in to the cluster, or run with --cluster local"
            )
        if packing.cells_at_once > packing.cells_per_job:
            raise UsageError(
                f"--cells-at-once is {packing.cells_at_once} and --cells-per-job {packing.cells_per_job}; "
                "a job cannot run more cells at once than it has"
            )

    def of(self, study: Study) -> SlurmSubmitter:
        """Return what submits another study, or the same later, in the same way."""
        return SlurmSubmitter(study, self.preset, self.packing, self.snapshot)

    def submit_cells(
        self, cells: Sequence[Cell], round_: int = 0, follow: Callable[[], None] | None = None
    ) -> list[Submission]:
        """Submit cells as arrays of at most the site's size, each recorded before and after.

        Args:
            cells: The cells.
            round_: How often the last job has handed them in again.
            follow: What each of their jobs calls at its end.

        Raises:
            UsageError: If sbatch refuses.
        """
        size = self.packing.cells_per_job
        jobs = [tuple(cells[i : i + size]) for i in range(0, len(cells), size)]
        limit, submissions = max_array_size(), []
        for start in range(0, len(jobs), limit):
            chunk = jobs[start : start + limit]
            # Arrays are throttled one by one, so where there is a bound the next waits for the last.
            after = [submissions[-1].array] if submissions and self._max_running else []
            submissions.append(self._hand_over(self._executor(len(chunk), after), chunk, round_, follow))
        return submissions

    def submit_last(self, last: Callable[[], None], after: Sequence[str], round_: int = 0) -> Submission:
        """Submit the job that runs when all arrays of ``after`` have ended, however they did.

        Raises:
            UsageError: If sbatch refuses.
        """
        executor = submitit.SlurmExecutor(folder=self._folder)
        partition = self.preset.report_partition or self.preset.partition
        _set(
            executor,
            **self._site(partition),
            job_name=f"{self.study.config.name}-report",
            time=min(LAST_JOB_MINUTES, minutes_of(self.preset.time)),
            cpus_per_task=1,
            dependency=f"afterany:{':'.join(after)}",
        )
        record = Submission(key=new_key(), elements={"": ()}, after=tuple(after), **self._facts(round_))
        return hand_over(self.study.folder, executor, [last], record)

    def script(self, num_cells: int) -> str:
        """The sbatch script of the cells, as --dry-run shows it; array options are added on submission."""
        num_jobs = -(-num_cells // self.packing.cells_per_job)
        at_a_time = min(num_jobs, self._max_running or num_jobs)
        executor = self._executor(num_jobs, [])
        command = job_command(self._folder, "KEY")
        array = f"# submitted as an array: --array=0-{num_jobs - 1}%{at_a_time}\n" if num_jobs > 1 else ""
        return array + executor._make_submission_file_text(command, "dry-run")

    @property
    def _folder(self) -> Path:
        return StudyFolder(self.study.folder).jobs_dir.resolve()

    @property
    def _max_running(self) -> int | None:
        return self.packing.max_running or self.preset.max_running

    @property
    def _layout(self) -> Layout:
        if self.preset.num_processes > 1:
            return "shared"
        return "at-once" if self.packing.cells_at_once > 1 else "in-turn"

    def _executor(self, num_jobs: int, after: Sequence[str]) -> submitit.SlurmExecutor:
        preset, at_once = self.preset, self.packing.cells_at_once
        executor = submitit.SlurmExecutor(folder=self._folder, max_num_timeout=preset.max_timeouts)
        tasks = preset.tasks_per_node * at_once
        _set(
            executor,
            **self._site(preset.partition),
            job_name=self.study.config.name,
            time=minutes_of(preset.time),
            nodes=preset.nodes,
            ntasks_per_node=tasks,
            cpus_per_task=max(1, preset.cpus_per_task // at_once),
            gpus_per_node=preset.gpus_per_node or None,
            mem=f"{round(preset.mem_gb * 1024)}M" if preset.mem_gb else None,
            array_parallelism=self._max_running or num_jobs,
            dependency=f"afterany:{':'.join(after)}" if after else None,
            # One that died must not keep the others of its job waiting.
            srun_args=["--kill-on-bad-exit=1"] if preset.num_processes > 1 else None,
        )
        return executor

    def _site(self, partition: str | None) -> dict[str, Any]:
        """What every job says, the last one too."""
        preset = self.preset
        return {
            "partition": partition,
            "account": preset.account,
            "qos": preset.qos,
            "constraint": preset.constraint,
            "signal_delay_s": preset.signal_delay_s,
            "setup": self._setup(),
            "additional_parameters": preset.options,
        }

    def _setup(self) -> list[str]:
        # Since SLURM 22.05 srun does not take the cores of a task from the job.
        cores = dict.fromkeys(("OMP_NUM_THREADS", "SRUN_CPUS_PER_TASK"), "${SLURM_CPUS_PER_TASK:-1}")
        own = {name: in_the_job(value) for name, value in self.preset.environment.items()}
        code = {name: shlex.quote(value) for name, value in snapshot_environment(self.snapshot).items()}
        return [
            "set -e  # a failing line ends the job",
            *(f"module load {shlex.quote(name)}" for name in self.preset.modules),
            *self.preset.setup,
            *(f"export {name}={value}" for name, value in (cores | own | code).items()),
        ]

    def _hand_over(
        self,
        executor: submitit.SlurmExecutor,
        jobs: Sequence[tuple[Cell, ...]],
        round_: int,
        follow: Callable[[], None] | None,
    ) -> Submission:
        suffixes = [f"_{i}" for i in range(len(jobs))] if len(jobs) > 1 else [""]
        cells = (tuple(cell.run_id for cell in job) for job in jobs)
        elements = dict(zip(suffixes, cells, strict=True))
        record = Submission(key=new_key(), elements=elements, **self._facts(round_))
        calls = [CellJob(job, self._layout, follow) for job in jobs]
        return hand_over(self.study.folder, executor, calls, record)

    def _facts(self, round_: int) -> dict[str, Any]:
        return {"round": round_, "snapshot": self.snapshot.name}


def _set(executor: submitit.SlurmExecutor, **parameters: Any) -> None:
    """Leave out what is not set, for which the site's own default holds."""
    executor.update_parameters(**{name: value for name, value in parameters.items() if value is not None})


def in_the_job(value: str) -> str:
    """Write a value for the job's shell, which puts variables in and nothing else: ``$SCRATCH/hf``."""
    return '"' + _SPECIAL.sub(lambda found: found[1] or rf"\{found[0]}", value) + '"'
