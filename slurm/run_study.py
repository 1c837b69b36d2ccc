"""Running the cells of a study that are not done yet: here, or as jobs of a SLURM cluster."""

from __future__ import annotations

import time
from collections.abc import Sequence

from base.errors import naming
from base.files import ABANDONED_S, remove_leftovers
from base.printing import duration
from base.run.folder_names import RunFolder, StudyFolder
from eval.identity import admit_run
from ffn_variants.devices import check_device
from pretrain.data.prepare import prepare_data
from slurm.arguments import SubmitArgs
from slurm.cell_state import count_states
from slurm.local import LocalRunner, StudyProgress, batches, describe_gpus
from slurm.next_stage import check_unchanged, end_stage
from slurm.snapshot import take_snapshot
from slurm.study.cells import Cell, backbone_cells, contents, own_variants, trained_cells
from slurm.study.study import Study
from slurm.study.tune_section import compared_data
from slurm.study_dry_run import check_usable_study, find_submitter
from slurm.todo import Todo, check_archived, check_same_texts, find_todo, sole_submitter, unfinished


def run_study(study: Study, options: SubmitArgs) -> int:
    """Run a study; returns 1 if a local study has cells left at the end.

    Args:
        study: The study, as ``launch`` read it.
        options: What was typed.

    Raises:
        UsageError: For missing data, or a study that another command submits.
    """
    check_unchanged(study)
    check_usable_study(study)
    if options.cluster == "local" and not all(RunFolder(cell.run_dir).is_scored for cell in study.cells):
        describe_gpus(options.workers)
        check_device(study.config.evaluation.device)  # told here, and not by every cell
    with naming(study.folder), sole_submitter(study.folder):
        folder = StudyFolder(study.folder)
        for place in (folder.path, folder.cells_dir, folder.code_dir):  # cells that run may be writing there
            remove_leftovers(place, ABANDONED_S)
        study = study.now()
        todo = find_todo(study, options.retry_failed)
        counts = count_states(todo.states.values())
        print(f"study {study.config.name}: {len(study.cells)} cells in {study.folder}: {counts}")
        if todo.cells:
            if options.cluster == "slurm":
                find_submitter(study, options).first_start(len(todo.cells))  # told before data is prepared
            check_same_texts(study, todo)
            check_archived(todo.cells)
            _prepare(study, todo.cells)
        study.write()
        if options.cluster == "slurm":
            return _submit(study, todo, options)
        return _run_here(study, todo, options)


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
        # Also where its last job was lost.
        if not any(state.name in ("queued", "running") for state in todo.states.values()):
            study = end_stage(study)
            todo = find_todo(study, retry_failed=False)
            if not todo.cells:
                return 0
            study.write()
    snapshot = take_snapshot(study.folder, contents(own_variants(study.planned)))
    submitter = find_submitter(study, options, snapshot)
    if todo.cells:
        jobs = submitter.submit_cells(todo.cells)
        ids = ", ".join(dict.fromkeys(job.job_id.split("_")[0] for job in jobs))
        handed = f"{len(todo.cells)} cells in {len(jobs)} jobs (SLURM {ids})"
        print(f"submitted {handed}, code {submitter.snapshot}")
    if options.report and (report := submitter.submit_report()):
        print(f"the report comes after them (SLURM {report}): {StudyFolder(study.folder).report_file}")
    print(f"follow it with: ffn-ablations study status {study.folder}")
    return 0


def _run_here(study: Study, todo: Todo, options: SubmitArgs) -> int:
    """Run the cells on this machine, stage by stage; returns 1 if one of the study is not done at the end."""
    snapshot = None
    while True:
        started_s = time.time()
        if todo.cells:
            # Once: cells of later stages run the same code.
            snapshot = snapshot or take_snapshot(study.folder, contents(own_variants(study.planned)))
            progress = StudyProgress(study, todo, options.workers)
            runner = LocalRunner(study.folder, options.workers, progress, snapshot)
            runner.run(batches(todo.cells, options.cells_per_process, options.workers))
        is_done = not unfinished(study)
        print(f"{len(todo.cells)} cells run in {duration(time.time() - started_s)}")
        if not is_done:
            print("the same command continues what is missing; --retry-failed also tries what failed")
        later = end_stage(study, options.report)
        if len(later.cells) == len(study.cells):
            return 0 if is_done else 1
        study, todo = later, find_todo(later, retry_failed=False)
        study.write()
