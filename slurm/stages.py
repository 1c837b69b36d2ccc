"""Going on from stage to stage, wherever a study runs: what was tuned is chosen, a report is written."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import date

from base.config_input import SEED_END
from base.errors import UsageError
from base.run.folders import RunFolder, StudyFolder
from base.run.manifest import read_completion
from report.analyse import analyse
from report.analysis import Analysis
from report.inputs.sources import read_source
from report.page import summary
from report.parts.tuning import Narrowing, most_decisive
from report.significance.axes import Combination
from report.significance.comparison import SHOWN, Comparison
from report.tuning.choices import MORE_SEEDS, TUNED_BY
from report.write import write_report
from scores.decisions import Claim, Decisions, Look, read_decisions, write_decisions
from scores.stages import TUNE
from scores.tuning import Choice, Further, Group, Losses, Round, Tuning, Wanted, read_tuning, write_tuning
from scores.tuning_rules import Point
from slurm.study.axes import write_value
from slurm.study.cells import RunCell, trained_cells
from slurm.study.study import Study
from slurm.study.tuning import cells_of
from slurm.todo import not_done_lines, unfinished

_OF_TUNING = {
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
            f"study {study.config.name}: {_OF_TUNING.get(changed, f'tune.{changed}')} changed after "
            f"its first round of tuning; change it back, give the study another name, or remove {file}, "
            "and what was chosen is forgotten"
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


_OF_LOOKS = {
    "looks": "the seeds at its looks",
    "variants": "its variants",
    "axes": "its axes",
    "cells": "its families or training",
    "benchmarks": "what it is scored on",
}


def check_plan(study: Study) -> None:
    """Refuse to go on with a study that was changed after its first look.

    Raises:
        UsageError: If what its looks rest on is not what it was; names the first thing that differs.
    """
    decisions, now = read_decisions(study.folder), study.plan
    if decisions is None:
        return
    changed = [name for name, value in decisions.plan.items() if now.get(name) != value]
    if changed:
        raise UsageError(
            f"study {study.config.name}: {_OF_LOOKS.get(changed[0], changed[0])} changed after its first "
            "look; change it back, give the study another name, or remove "
            f"{StudyFolder(study.folder).decisions_file}, and what was decided is forgotten"
        )


def take_look(study: Study, analysis: Analysis) -> None:
    """Record what a report decides, if it is that of a look, and say who goes on.

    Args:
        study: A study whose cells have all ended.
        analysis: What its report says.
    """
    decisions = study.decisions
    if decisions is None or decisions.is_over or study.now().decisions != decisions:
        return  # nothing to decide, or this very look was recorded before the command was stopped
    if not _claims(analysis):
        print("no look is made, as no primary outcome has scores: nothing is decided, and no seeds are added")
        return
    look = _look(study, decisions, analysis)
    now = replace(decisions, looks=(*decisions.looks, look))
    write_decisions(study.folder, now)
    following = decisions.planned[len(decisions.looks) + 1 :]
    told = f"{', '.join(look.go_on)} go on to {following[0]} seeds" if look.go_on else "no seeds are added"
    used = "" if look.go_on else f": {now.runs_used} were used"
    print(f"{now.progress}; {told}{used}")


def _look(study: Study, decisions: Decisions, analysis: Analysis) -> Look:
    before, seeds = decisions.decided(), decisions.planned[len(decisions.looks)]
    claims, undecided = [], []
    for comparison in _claims(analysis):
        name = (str(comparison.contrast), str(comparison.benchmark))
        _, verdict = before.get(name, (0, comparison.verdict))
        is_decided = name in before or verdict in SHOWN
        claims.append(Claim(comparison=name[0], outcome=name[1], verdict=verdict, is_decided=is_decided))
        undecided += [] if is_decided else [comparison]
    is_last = seeds == decisions.planned[-1]
    go_on = () if is_last else tuple(_variants(study, undecided))
    return Look(seeds=seeds, made=date.today().isoformat(), claims=tuple(claims), go_on=go_on)


def _claims(analysis: Analysis) -> list[Comparison]:
    """The comparisons that the study's answer rests on."""
    return [comparison for comparison in analysis.comparisons if comparison.is_primary]


def _variants(study: Study, undecided: Iterable[Comparison]) -> list[str]:
    """Name the variants whose runs some comparisons are made of, in the order of the study.

    Where heads or the levels of an axis are compared these are all: each is averaged over the variants.
    """
    variants = study.config.models
    levels = {level for comparison in undecided for level in comparison.contrast.weights()}
    if levels and study.config.report.factor not in ("ffn", "both"):
        return list(variants)
    named = {level.variant if isinstance(level, Combination) else level for level in levels}
    return [name for name in variants if name in named]


def write_study_report(study: Study) -> None:
    """Name the cells that are not done, and write the report of those that are.

    Where all cells have ended, well or not, and seeds are added to what is undecided, it is that of a look.
    """
    left = unfinished(study)
    for line in not_done_lines(left):
        print(line)
    print(f"{len(study.cells) - len(left)} of {len(study.cells)} cells done")
    try:
        folder = StudyFolder(study.folder)
        analysis = write_report(study.folder, folder.report_dir)
        if all(state.name == "failed" for _, state in left):
            take_look(study, analysis)
        print(f"\n{summary(analysis)}\n\n{folder.report_file}", flush=True)
    except UsageError as error:
        # With few cells done there may be nothing to compare yet, which is no mistake of the user.
        print(f"no report yet: {error}", flush=True)


def with_further(study: Study, number: int) -> Study:
    """Return a study with further tuning runs, and say which; where some have not ended, as it is.

    Args:
        study: A study that was tuned, whose cells are done.
        number: How many tunings are added, each of one variant; of none nothing happens.

    Raises:
        UsageError: If the study tunes nothing, adds seeds by looks, or is not done.
    """
    if not number:
        return study
    _check(study)
    tuning = study.tuning
    assert tuning is not None
    if tuning.awaits_further:
        print("tuning runs that were added before have not ended; this command goes on with them")
        return study
    if left := [cell for cell, state in unfinished(study) if state.name != "failed"]:
        raise UsageError(
            f"--decide: {len(left)} of {len(study.cells)} cells of {study.config.name} are not done, so "
            "nobody knows what is undecided; give the command without --decide first"
        )
    found = analyse(read_source(study.folder))
    undecided = [c for c in found.comparisons if c.benchmark == TUNED_BY]
    added = most_decisive(found.tuned, undecided)[:number] if found.tuned else []
    if not added:
        print(
            "no tuning run is added: where something is undecided on the held-out loss, the choice of a "
            "value adds nothing to it, or fewer than three numbers were tried, which no further seed helps"
        )
        return study
    for each in added:
        print(
            f"to be tuned further: {each.tuned}, {each.lines[0].field} "
            f"{', '.join(map(write_value, each.values))}, "
            f"{each.num_runs} runs; if means stay as they are, the "
            f"interval of {each.compared} narrows to {each.share:.0%}"
        )
    further = [one for each in added for one in _further(each, tuning, study.config.all_seeds)]
    return replace(study, tuning=replace(tuning, further=(*tuning.further, *further)))


def _check(study: Study) -> None:
    name = study.config.name
    if study.config.tune is None:
        raise UsageError(f"--decide adds tuning runs, and {name} tunes nothing; leave it out")
    if study.config.looks:
        raise UsageError(
            f"--decide would change what the looks at {name} decided with the tuning as it was; leave it out"
        )


def _further(added: Narrowing, tuning: Tuning, main_seeds: Sequence[int]) -> list[Further]:
    """Return the runs of each setting, at the next seeds that nobody has."""
    found = []
    for line in added.lines:
        choice = line.choice
        taken = {*main_seeds, *tuning.plan.seeds}
        taken |= {seed for each in tuning.further_of(choice) for seed in each.seeds}
        first = max(taken - set(main_seeds)) + 1
        numbers = itertools.chain(range(first, SEED_END), range(first))
        free = (seed for seed in numbers if seed not in taken)
        found.append(
            Further(
                family=choice.family,
                places=choice.places,
                variant=choice.variant,
                field=line.field,
                values=line.of_curve,
                seeds=tuple(itertools.islice(free, MORE_SEEDS)),
            )
        )
    return found
