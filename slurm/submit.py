"""Run the cells of a study that are not done yet, then write its report.

    python -m slurm.submit configs/studies/quickstart.yaml --workers 2
    python -m slurm.submit configs/studies/thesis.yaml --cluster slurm --preset configs/clusters/one-gpu.yaml
    python -m slurm.submit configs/studies/thesis.yaml --dry-run

The same command again repeats nothing: cells that are done, queued or running are left alone, unfinished ones
resume from their last checkpoint. With --cluster slurm the command returns at once; the study goes on without
it and ends with its report. python -m slurm.status STUDY says where it stands.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import FlagCreatePairsOff, Positional, arg

from base.command_line import parse_flags
from base.errors import UsageError, run_cli
from base.progress import duration
from pretrain.run.folders import StudyFolder
from slurm.study import Cell, Study, load_study
from slurm.submissions import sole_submitter

if TYPE_CHECKING:
    from slurm.sbatch import SlurmSubmitter
    from slurm.todo import Todo


@dataclass(frozen=True, kw_only=True)
class SubmitArgs:
    """Run the cells of a study that are not done yet, then write its report."""

    study: Positional[Path]
    """The study's YAML file."""
    cluster: Literal["local", "slurm"] = "local"
    """Where the cells run: on this machine, or as jobs of the SLURM cluster whose login node this is."""
    preset: Path | None = None
    """With slurm: what the site wants to be told, a file like those in configs/clusters/."""
    max_running: int | None = None
    """With slurm: jobs that run at the same time (default: the preset's, else all)."""
    workers: Annotated[int, arg(aliases=["-j"])] = 2
    """With local: cells that run at the same time; cores and GPUs are shared among them."""
    cells_per_job: int = 1
    """Cells that share one job or process, which saves its start; worth it for short cells."""
    cells_at_once: int = 1
    """With slurm: of the cells of a job, how many run at the same time on its GPU."""
    runs_dir: Path | None = None
    """Folder for all runs, instead of the one in the config (runs/)."""
    retry_failed: Annotated[bool, FlagCreatePairsOff] = False
    """Also try cells again that ended with an error of their own."""
    cancel: Annotated[bool, FlagCreatePairsOff] = False
    """Cancel the study's jobs; the same command without it continues later."""
    dry_run: Annotated[bool, FlagCreatePairsOff] = False
    """Show the plan, its cost and the sbatch script, and stop; nothing is written."""
    report: bool = field(default=True)
    """Write the report after the last cell."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 if a local study has cells that are not done at the end."""
    options = parse_flags(SubmitArgs, args, prog="python -m slurm.submit", description=__doc__)
    for name in ("workers", "cells_per_job", "cells_at_once", "max_running"):
        if (value := getattr(options, name)) is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; it must be 1 or more")
    overrides = {"output": {"runs_dir": str(options.runs_dir)}} if options.runs_dir else {}
    study = load_study(options.study, overrides)
    if options.cancel:
        from slurm.cancel import cancel_study

        return cancel_study(study.folder)
    from slurm.todo import find_todo

    if options.dry_run:
        from slurm.dry_run import show_plan

        todo = find_todo(study, options.retry_failed)
        submitter = _submitter(study, options) if options.cluster == "slurm" else None
        return show_plan(study, todo, submitter)
    with sole_submitter(study.folder):
        todo = find_todo(study, options.retry_failed)
        _show(study, todo)
        if todo.cells:
            if options.cluster == "slurm":
                _submitter(study, options)  # a mistake in the preset is told before data is prepared
            _prepare(study, todo.cells)
        study.write()
        if options.cluster == "slurm":
            return _submit(study, todo, options)
        return _run_here(study, todo, options)


def _show(study: Study, todo: Todo) -> None:
    """Print what the study holds and where it stands."""
    config, counts = study.config, Counter(state.name for state in todo.states.values())
    counted = ", ".join(f"{counts[name]} {name}" for name in sorted(counts))
    print(f"study {config.name}: {len(study.cells)} cells in {study.folder}: {counted}")
    tried = {cell.run_id for cell in todo.cells}
    for run_id, state in todo.states.items():
        if state.name == "failed" and run_id not in tried:
            print(f"left alone, as it failed before (--retry-failed tries it again): {run_id}: {state.error}")


def _prepare(study: Study, todo: Sequence[Cell]) -> None:
    """Find the evaluation's data and tokenise the corpus; what is missing is told now, not after hours."""
    from eval.runner.work_units import check_sources
    from pretrain.data.prepare import prepare_data

    for note in check_sources(study.config.evaluation):
        print(f"note: {note}")
    # Done once, before the workers start, so that they do not all do it at the same time.
    for config in {cell.config.data.model_dump_json(): cell.config for cell in todo}.values():
        prepare_data(config)


def _submit(study: Study, todo: Todo, options: SubmitArgs) -> int:
    """Hand the cells to SLURM and return."""
    from slurm.finish import LastJob
    from slurm.report import write_study_report
    from slurm.snapshot import take_snapshot

    if not todo.cells:
        print("nothing to submit")
        if options.report and not any(s.name in ("queued", "running") for s in todo.states.values()):
            write_study_report(study)  # its last job may have been lost
        return 0
    submitter = _submitter(study, options, take_snapshot(study.folder))
    submissions = submitter.submit_cells(todo.cells)
    num_jobs = sum(len(submission.elements) for submission in submissions)
    arrays = ", ".join(submission.array for submission in submissions)
    print(f"submitted {len(todo.cells)} cells in {num_jobs} jobs (SLURM {arrays}), code {submitter.snapshot}")
    if options.report:
        last = submitter.submit_last(LastJob(submitter), submissions)
        print(f"the report comes after them (SLURM {last.array}): {StudyFolder(study.folder).report_file}")
    print(f"follow it with: python -m slurm.status {study.folder}")
    return 0


def _submitter(study: Study, options: SubmitArgs, snapshot: Path | None = None) -> SlurmSubmitter:
    """What hands this study to SLURM; without a snapshot it only shows and checks."""
    from slurm.cluster import load_preset
    from slurm.sbatch import Packing, SlurmSubmitter

    packing = Packing(
        cells_per_job=options.cells_per_job,
        cells_at_once=options.cells_at_once,
        max_running=options.max_running,
    )
    code = snapshot or StudyFolder(study.folder).code_dir / "COMMIT"
    return SlurmSubmitter(study, load_preset(options.preset), packing, code)


def _run_here(study: Study, todo: Todo, options: SubmitArgs) -> int:
    """Run the cells on this machine; returns 1 if one of the study is not done at the end."""
    from slurm.local import LocalRunner, batches
    from slurm.progress import StudyProgress
    from slurm.report import unfinished, write_study_report
    from slurm.snapshot import take_snapshot

    started_s = time.time()
    if todo.cells:
        progress = StudyProgress(study.folder, todo.cells, len(study.cells) - len(todo.cells))
        try:
            runner = LocalRunner(study.folder, options.workers, progress, take_snapshot(study.folder))
            runner.run(batches(todo.cells, options.cells_per_job))
        finally:
            progress.close()
    left = unfinished(study)
    print(f"{len(todo.cells)} cells run in {duration(time.time() - started_s)}")
    if left:
        print("the same command continues what is missing; --retry-failed also tries what failed")
    if options.report:
        write_study_report(study)
    return 1 if left else 0


if __name__ == "__main__":
    run_cli(main)
