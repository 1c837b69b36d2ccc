"""Going on from stage to stage, wherever a study runs: what was tuned is chosen, a report is written."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date

from base.errors import UsageError
from base.run.folders import RunFolder, StudyFolder
from base.run.manifest import read_completion
from scores.stages import TUNE
from scores.tuning import (
    Choice,
    Further,
    Group,
    Losses,
    Round,
    Tuning,
    Wanted,
    read_tuning,
    write_tuning,
)
from scores.tuning_rules import Point
from slurm.run.looks import write_study_report
from slurm.run.todo import unfinished
from slurm.study.axes.points import write_value
from slurm.study.cells import RunCell, trained_cells
from slurm.study.study import Study
from slurm.study.tuning.cells import cells_of

_NAMES = {
    "fields": "what is tuned",
    "seeds": "the tuning's seeds",
    "baseline": "the baseline",
    "settings": "its families or axes",
    "cells": "its training",
}


def check_tuning_plan(study: Study) -> None:
    """Refuse to go on with a study whose tuning was changed after its first round.

    Raises:
        UsageError: Naming the first thing that differs.
    """
    before = read_tuning(study.folder)
    if before is None:
        return
    file = StudyFolder(study.folder).tuning_file
    if study.tuning_plan is None:
        raise UsageError(f"study {study.config.name}: it was tuned ({file}), and tune: is gone; put it back")
    if gone := [name for name in before.plan.variants if name not in study.tuning_plan.variants]:
        raise UsageError(
            f"study {study.config.name}: it was tuned with {', '.join(gone)}, which is not among its "
            "variants now; put it back, or --add it again, give the study another name, or remove "
            f"{file}, and what was chosen is forgotten"
        )
    added = {seed for each in before.further for seed in each.seeds}
    if both := sorted(added & set(study.config.all_seeds)):
        raise UsageError(
            f"study {study.config.name}: seeds {', '.join(map(str, both))} are those of tuning runs that "
            "--decide added, and would say the same twice; name others"
        )
    if changed := before.plan.what_differs(study.tuning_plan):
        raise UsageError(
            f"study {study.config.name}: {_NAMES.get(changed, f'tune.{changed}')} changed after its first "
            f"round of tuning; change it back, give the study another name, or remove {file}, and what was "
            "chosen is forgotten"
        )


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
    if tuning is None or (tuning.is_over and not tuning.awaits_further):
        return
    left = [(cell, state) for cell, state in unfinished(study) if cell.stage == TUNE]
    ended = {cell.run_id for cell in study.cells if cell.stage == TUNE} - {cell.run_id for cell, _ in left}
    now = tuning.advanced(_losses(study, ended), date.today().isoformat())
    if now != tuning:
        write_tuning(study.folder, now)
    for line in said(tuning, now):
        print(line)
    failed = sum(state.name == "failed" for _, state in left)
    if failed:
        print(
            f"tuning waits for {failed} of its runs that failed by an error of their own: nothing follows "
            "without them; mend the cause and give the command again with --retry-failed"
        )


def _losses(study: Study, ended: Collection[str]) -> Losses:
    """Look up the held-out losses of tuning runs that have ended."""
    untuned = trained_cells(study.planned)

    def losses(wanted: Wanted, seeds: Sequence[int]) -> tuple[float | None, ...] | None:
        cells = cells_of(wanted, seeds, untuned)
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


def said(before: Tuning, now: Tuning) -> list[str]:
    """Tell of rounds that ended and of what was chosen."""
    lines = [_of_round(now, each) for each in now.rounds[len(before.rounds) :]]
    chosen = now.chosen[len(before.chosen) :]
    lines += [_of_choice(now, choice) for choice in chosen]
    return lines + [_of_further(each) for each in now.further if each.losses and each not in before.further]


def _of_round(tuning: Tuning, ended: Round) -> str:
    group = Group(ended.family, ended.places, ended.variants)
    rounds = tuning.rounds_of(group)
    losses = [loss for one in ended.tried for loss in one.losses]
    diverged = sum(loss is None for loss in losses)
    runs = f"{len(losses)} run{'s' * (len(losses) != 1)}" + (f", {diverged} diverged" if diverged else "")
    where = f"{_where(ended)}, {ended.variants[0]}" if len(ended.variants) == 1 else _where(ended)
    number = rounds.index(ended) + 1
    then = _following(tuning, group, ended) if number == len(rounds) else ""
    return f"tuning of {where}, round {number}: {runs}{then}"


def _of_further(ended: Further) -> str:
    values = ", ".join(map(write_value, ended.values))
    diverged = sum(loss is None for losses in ended.losses for loss in losses)
    return (
        f"tuned further: {_where(ended)}, {ended.variant}: {ended.field} {values} at seeds "
        f"{', '.join(map(str, ended.seeds))}{f'; {diverged} diverged' if diverged else ''}"
    )


def _following(tuning: Tuning, group: Group, ended: Round) -> str:
    """Say what a group tries next, if anything."""
    due = tuning.due(group)
    values = {
        name: [x for x in dict.fromkeys(one.point[name] for one in due) if x not in grid]
        for name, grid in ended.grid.items()
    }
    told = [f"{name} {', '.join(map(write_value, some))}" for name, some in values.items() if some]
    if not told:
        return ""
    return f"; a best at the edge, so for all: {'; '.join(told)}"


def _of_choice(tuning: Tuning, choice: Choice) -> str:
    loss = "diverged everywhere" if choice.loss is None else f"held-out loss {choice.loss:.4f}"
    fields = tuning.at_edge(choice)
    edge = f"; at the edge of what was tried: {', '.join(fields)}" if fields else ""
    return f"chosen: {_where(choice)}, {choice.variant}: {_words(choice.point)} ({loss}{edge})"


def _where(place: Round | Choice | Further) -> str:
    return " ".join([place.family, *(level for _, level in place.places)])


def _words(point: Point) -> str:
    return ", ".join(f"{name} {write_value(value)}" for name, value in point.items())
