"""A study's report, and looks at a study whose seeds are added until its comparisons are decided.

A comparison that is decided stays so. Later reports show it with the runs that it had then (see
``scores.decisions``), and its variant gets no more seeds unless another comparison needs them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date

from base.errors import UsageError
from base.run.folders import StudyFolder
from report.analysis import Analysis
from report.page import summary
from report.significance.axes import Combination
from report.significance.comparison import SHOWN, Comparison
from report.write import write_report
from scores.decisions import Claim, Decisions, Look, read_decisions, write_decisions
from slurm.run.todo import not_done_lines, unfinished
from slurm.study.study import Study

_NAMES = {
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
            f"study {study.config.name}: {_NAMES.get(changed[0], changed[0])} changed after its first look; "
            "change it back, give the study another name, or remove "
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
