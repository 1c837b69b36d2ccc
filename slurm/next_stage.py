"""Going on from stage to stage, wherever a study runs: what was tuned is chosen, a report is written."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date

from base.errors import UsageError
from base.run.folder_names import RunFolder, StudyFolder
from base.run.manifest import read_completion
from report.page import summary
from report.statistics.tuning_curves import chosen_places
from report.write import write_report
from scores.stages import TUNE
from scores.tuning_trials import Losses, Trial, Tuning, read_tuning, write_tuning
from slurm.study.cells import RunCell, trained_cells
from slurm.study.ffn_levels import write_value
from slurm.study.study import Study
from slurm.study.tune_section import cells_of
from slurm.todo import describe_unfinished, trained_files, unfinished

_WORDS = {"fields": "what is tuned", "settings": "its families or axes", "cells": "its families or training"}
"""What a user calls those parts of a plan that stand under no such name in the study's file."""


def check_unchanged(study: Study) -> None:
    """Refuse to go on with a study that was changed after its first round of tuning.

    Raises:
        UsageError: Naming the first thing that differs.
    """
    tuning = read_tuning(study.folder)
    changed = _changed_tuning(study, tuning) if tuning else ""
    if changed == "cells" and (flags := _flags_of_texts(study)):
        raise UsageError(
            f"study {study.config.name}: its runs were trained on files, and these cells name others; add "
            f"{flags}, or give the study another name"
        )
    if changed:
        raise UsageError(
            f"study {study.config.name}: {_WORDS.get(changed, changed)} changed after its first round "
            "of tuning; change it back, give the study another name, or remove "
            f"{StudyFolder(study.folder).tuning_file}, which forgets it"
        )


def _flags_of_texts(study: Study) -> str:
    """Return the flags for the files that finished runs were trained on; empty where cells name the same."""
    run = next((run for run in StudyFolder(study.folder).run_folders() if run.has_marker), None)
    files = trained_files(run) if run else {}
    planned = [cell.config.data for cell in trained_cells(study.planned)]
    if not any(files.values()) or any(list(data.train_files) == files["train_files"] for data in planned):
        return ""
    flags = zip(("--texts", "--validation-texts"), files.values(), strict=True)
    return " ".join(" ".join([flag, *paths]) for flag, paths in flags if paths)


def _changed_tuning(study: Study, tuning: Tuning) -> str:
    """Name the first part of a study that differs from its recorded tuning; empty if none does."""
    if study.tuning_plan is None:
        return "tune"
    if gone := [name for name in tuning.plan.variants if name not in study.tuning_plan.variants]:
        return f"variants ({', '.join(gone)} took part in it; put it back, or --add it again)"
    field = tuning.plan.what_differs(study.tuning_plan) or ""
    return f"tune.{field}" if field in ("seeds", "select", "widen", "shared") else field


def end_stage(study: Study, report: bool = True) -> Study:
    """Record what follows from cells that have ended, and write the report where no tuning run comes first.

    Args:
        study: The study; its cells have ended, well or not.
        report: Whether a report is wanted.

    Returns:
        The study with the cells that are due now; as many as before where nothing follows.
    """
    choose(study)
    later = study.now()
    if len(later.cells) > len(study.cells) or not report:
        return later
    write_study_report(study)
    return study.now()


def choose(study: Study) -> None:
    """Record the rounds that have ended since the last call, and say what they chose or wait for."""
    study = study.now()
    tuning = study.tuning
    if tuning is None or tuning.is_over:
        return
    pending = [(cell, state) for cell, state in unfinished(study) if cell.stage == TUNE]
    ended = {cell.run_id for cell in study.cells if cell.stage == TUNE} - {cell.run_id for cell, _ in pending}
    now = tuning.advanced(_losses(study, ended), date.today().isoformat(), chosen_places)
    if now != tuning:
        write_tuning(study.folder, now)
        print("\n".join([now.progress, *_chosen_lines(tuning, now)]))
    failed = sum(state.name == "failed" for _, state in pending)
    if failed:
        print(
            f"tuning waits for {failed} of its runs that failed by an error of their own: nothing follows "
            "without them; mend the cause and give the command again with --retry-failed"
        )


def _losses(study: Study, ended: Collection[str]) -> Losses:
    """Look up the held-out losses of tuning runs that have ended."""
    untuned = trained_cells(study.planned)

    def losses(trial: Trial, seeds: Sequence[int]) -> tuple[float | None, ...] | None:
        cells = cells_of(trial, seeds, untuned)
        if any(cell.run_id not in ended for cell in cells):
            return None
        return tuple(_held_out_loss(cell) for cell in cells)

    return losses


def _held_out_loss(cell: RunCell) -> float | None:
    """The held-out loss of a run that has ended; None where it diverged.

    Raises:
        UsageError: If its record does not say.
    """
    run = RunFolder(cell.run_dir)
    if run.has_diverged:
        return None
    completion = read_completion(run)
    loss = completion.results.get("eval_loss") if completion else None
    if not isinstance(loss, float):
        raise UsageError(
            f"{run.completion_marker} says no held-out loss; remove the run's folder to train anew"
        )
    return loss


def _chosen_lines(before: Tuning, now: Tuning) -> list[str]:
    """Write a line for each choice that ``now`` has and ``before`` has not."""
    lines = []
    for choice in now.chosen[len(before.chosen) :]:
        place = " ".join([choice.family, *(level for _, level in choice.places)])
        loss = "diverged everywhere" if choice.loss is None else f"held-out loss {choice.loss:.4f}"
        fields = ", ".join(now.at_edge(choice))
        edge = f"; at the edge of what was tried: {fields}" if fields else ""
        point = ", ".join(f"{name} {write_value(value)}" for name, value in choice.point.items())
        lines.append(f"chosen: {place}, {choice.variant}: {point} ({loss}{edge})")
    return lines


def write_study_report(study: Study) -> None:
    """Name the cells that are not done, and write the report of those that are."""
    pending = unfinished(study)
    for line in describe_unfinished(pending):
        print(line)
    print(f"{len(study.cells) - len(pending)} of {len(study.cells)} cells done")
    try:
        folder = StudyFolder(study.folder)
        analysis = write_report(study.folder, folder.report_dir)
        print(f"\n{summary(analysis)}\n\n{folder.report_file}", flush=True)
    except UsageError as error:
        # With few cells done there may be nothing to compare yet, which is no mistake of the user.
        print(f"no report yet: {error}", flush=True)
