"""Running the cells of a study that are not done yet: here, or as jobs of a SLURM cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from base.config_input import note_on_one
from base.errors import AbsentError, UsageError
from base.faults import naming
from base.files import ABANDONED_S, remove_leftovers
from base.progress import duration
from base.run.folders import RunFolder, StudyFolder
from eval.identity import admit_run
from eval.work_units import check_sources
from ffn_variants.models.devices import use_gpu
from pretrain.data.prepare import prepare_data
from pretrain.training.usable import check_all_usable, check_folder
from scores.tuning import write_tuning
from slurm.archive import check_archived
from slurm.arguments import SubmitArgs, runs_dir_override
from slurm.forecast import forecast
from slurm.queue.cluster import load_preset
from slurm.queue.snapshot import take_snapshot
from slurm.run.cluster import Packing, SlurmSubmitter
from slurm.run.dry_run import show_dry_run
from slurm.run.further import with_further
from slurm.run.local import LocalRunner
from slurm.run.looks import check_plan
from slurm.run.progress import StudyProgress
from slurm.run.stages import check_tuning_plan, end_stage
from slurm.run.todo import (
    Todo,
    check_same_texts,
    find_todo,
    in_parts,
    other_source_lines,
    sole_submitter,
    unfinished,
)
from slurm.state.survey import SILENT
from slurm.study.cells import Cell, backbone_cells, own_variants, trained_cells
from slurm.study.own_variants import contents
from slurm.study.study import Asked, Study, load_study
from slurm.study.tuning.cells import compared_data


def launch(options: SubmitArgs) -> int:
    """Do what ``ffn-ablations study run`` is asked to; returns 1 if a local study has cells left at the end.

    Args:
        options: What was typed.

    Raises:
        UsageError: For a faulty study or preset, missing data, or a study that another command submits.
    """
    overrides = runs_dir_override(options.runs_dir)
    if note := note_on_one(options.seeds or ""):
        print(note)
    asked = Asked(variants=options.variants or (), add=options.add, seeds=options.seeds or "")
    study = load_study(options.study, overrides, options.trust_remote_code, asked=asked)
    study.config.evaluation.refuse_unnamed_task_files(options.include_path, options.study)
    check_tuning_plan(study)
    check_plan(study)
    if study.config.looks and not options.report:
        raise UsageError(
            f"the report of {study.config.name} decides who gets more seeds; leave out --no-report"
        )
    if study.config.tune and options.cluster == "slurm" and not options.report:
        raise UsageError(
            f"the job that writes the report of {study.config.name} also hands in what its tuning chose; "
            "leave out --no-report"
        )
    if options.dry_run:
        study = with_further(study, options.decide)
        with suppress(AbsentError):  # which a plan names
            _check_usable(study, options)
        todo = find_todo(study, options.retry_failed)
        check_archived(todo.cells)
        submitter = _submitter(study, options) if options.cluster == "slurm" else None
        return show_dry_run(study, todo, forecast(study, todo.cells), submitter)
    _check_usable(study, options)
    with naming(study.folder), sole_submitter(study.folder):
        _tidy(StudyFolder(study.folder))
        current = study.now()
        study = with_further(current, options.decide)
        todo = find_todo(study, options.retry_failed)
        _show(study, todo)
        if todo.cells:
            if options.cluster == "slurm":
                _submitter(study, options)  # a mistake in the preset is told before data is prepared
            check_same_texts(study, todo)
            check_archived(todo.cells)
            _prepare(study, todo.cells)
        if study.tuning and study.tuning != current.tuning:
            write_tuning(study.folder, study.tuning)
        study.write()
        if options.cluster == "slurm":
            return _submit(study, todo, options)
        return _run_here(study, todo, options)


def _tidy(folder: StudyFolder) -> None:
    """Remove what killed processes left; cells that run may be writing beside it."""
    for place in (folder.path, folder.cells_dir, folder.code_dir):
        remove_leftovers(place, ABANDONED_S)


def _check_usable(study: Study, options: SubmitArgs) -> None:
    """Refuse what could not be trained or scored, before anything is read, prepared or written for it."""
    left = [cell for cell in trained_cells(study.cells) if not RunFolder(cell.run_dir).is_complete]
    processes = load_preset(options.preset).num_processes if options.cluster == "slurm" else 1
    check_all_usable((cell.config for cell in left), processes)
    check_folder(study.folder.parent)
    for cell in backbone_cells(study.cells):
        if not RunFolder(cell.run_dir).is_scored:
            cell.backbone.locate()
    if any(not RunFolder(cell.run_dir).is_scored for cell in study.cells):
        if options.cluster == "local" and not options.dry_run:
            use_gpu()  # what keeps torch from it is told here, and not by every cell
        for note in check_sources(study.config.evaluation):
            print(f"note: {note}")


def _show(study: Study, todo: Todo) -> None:
    """Print what the study holds and where it stands."""
    config, counts = study.config, Counter(state.name for state in todo.states.values())
    counted = ", ".join(f"{counts[name]} {name}" for name in sorted(counts))
    print(f"study {config.name}: {len(study.cells)} cells in {study.folder}: {counted}")
    for line in other_source_lines(todo.changed):
        print(line)
    told = {cell.run_id for cell in (*todo.cells, *todo.changed)}
    shown = {cell.run_id: cell.shown_id for cell in study.cells}
    if silent := sum(state.error == SILENT for state in todo.states.values()):
        print(
            f"note: SLURM does not answer here, and {silent} cells that were handed to it are left to it; "
            f"if its jobs are gone for good, remove {StudyFolder(study.folder).cells_dir} and give the "
            "command again"
        )
    for run_id, state in todo.states.items():
        if state.name == "failed" and run_id not in told:
            print(
                "left alone, as it failed before (--retry-failed tries it again): "
                f"{shown[run_id]}: {state.error}"
            )


def _prepare(study: Study, todo: Sequence[Cell]) -> None:
    """Tokenise the corpora and find backbones; what is wrong with them is told now, not after hours."""
    # Done once, before the workers start, so that they do not all do it at the same time.
    configs = [cell.config for cell in trained_cells(todo)]
    if study.tuning is not None:  # what is wrong with the text of later stages is told before any tuning
        configs += [compared_data(config) for config in configs]
    for config in {config.data.model_dump_json(): config for config in configs}.values():
        prepare_data(config)
    for cell in backbone_cells(todo):
        cell.backbone.prepare(cell.run_dir)
        admit_run(cell.run_dir, cell.trust_remote_code)


def _submit(study: Study, todo: Todo, options: SubmitArgs) -> int:
    """Hand the cells to SLURM and return."""
    if not todo.cells:
        print("nothing to submit")
        if not options.report:
            return 0
        if todo.is_over:  # also where its last job was lost
            study = end_stage(study)
            todo = find_todo(study, retry_failed=False)
            if not todo.cells:
                return 0
            study.write()
    submitter = _submitter(study, options, _take_snapshot(study))
    if todo.cells:
        jobs = submitter.submit_cells(todo.cells)
        arrays = ", ".join(dict.fromkeys(job.job_id.split("_")[0] for job in jobs))
        handed = f"{len(todo.cells)} cells in {len(jobs)} jobs (SLURM {arrays})"
        print(f"submitted {handed}, code {submitter.snapshot}")
    if options.report and (report := submitter.submit_report()):
        print(f"the report comes after them (SLURM {report}): {StudyFolder(study.folder).report_file}")
    print(f"follow it with: ffn-ablations study status {study.folder}")
    return 0


def _take_snapshot(study: Study) -> Path:
    """Copy the code that the study's jobs run, and the files of the user's own variants."""
    return take_snapshot(study.folder, contents(own_variants(study.planned)))


def _submitter(study: Study, options: SubmitArgs, snapshot: Path | None = None) -> SlurmSubmitter:
    """What hands this study to SLURM; without a snapshot it only shows and checks."""
    packing = Packing(
        cells_per_job=options.cells_per_job,
        cells_at_once=options.cells_at_once,
        max_running=options.max_running,
    )
    code = snapshot or StudyFolder(study.folder).code_dir / "COMMIT"
    return SlurmSubmitter(study, load_preset(options.preset), packing, code)


def _run_here(study: Study, todo: Todo, options: SubmitArgs) -> int:
    """Run the cells on this machine, stage by stage; returns 1 if one of the study is not done at the end."""
    # Once: cells of later stages run the same code, whatever is edited meanwhile.
    snapshot = _take_snapshot(study) if todo.cells or study.goes_on else study.folder
    while True:
        is_left = _run_cells(study, todo, options, snapshot)
        later = end_stage(study, options.report)
        if len(later.cells) == len(study.cells):
            return 1 if is_left else 0
        study, todo = later, find_todo(later, retry_failed=False)
        study.write()


def _run_cells(study: Study, todo: Todo, options: SubmitArgs, snapshot: Path) -> bool:
    """Run the cells that are to be run now; returns whether one of the study is not done then."""
    started_s = time.time()
    if todo.cells:
        now = {cell.run_id for cell in todo.cells}
        before = [cell for cell in study.cells if cell.run_id not in now]
        progress = StudyProgress(study.folder, todo.cells, before, study.to_come, options.workers)
        try:
            runner = LocalRunner(study.folder, options.workers, progress, snapshot)
            runner.run(in_parts(todo.cells, options.cells_per_job))
        finally:
            progress.close()
    left = unfinished(study)
    print(f"{len(todo.cells)} cells run in {duration(time.time() - started_s)}")
    if left:
        print("the same command continues what is missing; --retry-failed also tries what failed")
    return bool(left)
