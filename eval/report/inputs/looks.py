"""Which of a study's reports this one is, and what it costs to have looked so often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from eval.report.inputs.design import Design
from eval.report.inputs.history import Claim, History, Report
from eval.significance.axes import Benchmark
from eval.significance.comparison import Comparison
from eval.significance.statistics.looks import FEWEST, Plan, PlannedLooks


def decided_seeds(design: Design, benchmark: Benchmark) -> dict[str, Sequence[int]]:
    """Return by comparison, as written, the seeds that it was decided with on a benchmark."""
    return {
        comparison: design.seeds[:num_seeds]
        for (comparison, outcome), (num_seeds, _) in _decided(design).items()
        if outcome == str(benchmark)
    }


def runs_of_all(design: Design, runs: pd.DataFrame) -> pd.DataFrame:
    """Keep the runs of seeds that all variants were meant to have."""
    first = design.decisions.planned[0] if design.decisions else None
    return runs[runs.seed.isin(design.seeds[:first])] if first else runs


def decided_remark(design: Design) -> str | None:
    """Say which comparisons are shown as they were at a look before the last one, and what that saved.

    None where seeds are no matter of looks, or nothing was decided before the latest one.
    """
    if design.decisions is None:
        return None
    used = f" It took {design.decisions.runs_used}." if design.decisions.is_over else ""
    early: dict[str, list[str]] = {}
    for (comparison, outcome), (num_seeds, _) in _decided(design).items():
        if num_seeds < len(design.seeds):
            early.setdefault(f"{comparison} with {num_seeds} seeds", []).append(outcome)
    if not early:
        return None
    looks = ", ".join(map(str, design.decisions.planned))
    named = "; ".join(f"{words} ({', '.join(outcomes)})" for words, outcomes in early.items())
    return (
        f"Seeds were added only to variants with an undecided comparison, at looks of {looks} seeds. What "
        f"was decided before the latest look stays as it was then, with the runs of then: {named}. Single "
        f"runs, means of variants and phenomena are of all runs.{used}"
    )


def decided_notes(design: Design, comparisons: Iterable[Comparison]) -> list[str]:
    """Name comparisons whose verdict is no longer the one that a look recorded."""
    decided, families = _decided(design), len(design.families)
    notes = []
    for found in comparisons:
        name = (str(found.contrast), str(found.benchmark))
        is_overall = found.family is None or families == 1
        if is_overall and name in decided and decided[name][1] != found.verdict:
            num_seeds, verdict = decided[name]
            notes.append(
                f"{name[0]} on {name[1]} was decided at {num_seeds} seeds: {verdict}. With the scores, the "
                f"questions and the statistics of now it is {found.verdict}; the seeds are those of then"
            )
    return notes


def _decided(design: Design) -> dict[tuple[str, str], tuple[int, str]]:
    return design.decisions.decided() if design.decisions else {}


@dataclass(frozen=True, kw_only=True)
class CountedLooks:
    """The reports of a study up to this one, which comes last."""

    reports: tuple[Report, ...]
    level: float

    @property
    def plan(self) -> Plan | None:
        """The looks planned."""
        looks = self.reports[-1].looks
        return tuple(looks) if isinstance(looks, list) else looks

    @property
    def number(self) -> int:
        """This report is the study's first, second, ..."""
        return len(self.reports)

    @property
    def looks(self) -> list[int]:
        """Numbers of runs at which a difference could have been claimed, ascending."""
        return sorted({claim.runs for report in self.reports for claim in report.claims.values()})

    @property
    def is_beyond(self) -> bool:
        """Whether the planned looks were over before this report, for any claim."""
        *before, now = self.reports
        if not isinstance(self.plan, tuple):
            return False
        looks = PlannedLooks(self.plan, runs_by_claim(before))
        return any(looks.is_beyond(claim.runs, name) for name, claim in now.claims.items())

    @property
    def is_costly(self) -> bool:
        """Whether a variant like its baseline is called different more often than the level says."""
        return len(self.looks) > 1 if self.plan is None else self.is_beyond


def count_looks(
    history: History, data: str, claims: Sequence[Comparison], plan: Plan | None, level: float
) -> CountedLooks | None:
    """Count the reports up to one on these scores; None where nothing can be claimed.

    Args:
        history: Of the study.
        data: ``data_key`` of the scores.
        claims: The claims of this report.
        plan: The looks planned.
        level: Of every test.
    """
    now = {c.claim: Claim(verdict=c.verdict, runs=c.fewest_runs) for c in claims if c.fewest_runs >= FEWEST}
    if not now:
        return None
    report = Report(data=data, claims=now, looks=list(plan) if isinstance(plan, tuple) else plan)
    return CountedLooks(reports=(*earlier(history, data), report), level=level)


def earlier(history: History, data: str) -> list[Report]:
    """Return the reports before the one on these scores."""
    keys = [report.data for report in history.reports]
    return list(history.reports[: keys.index(data)] if data in keys else history.reports)


def runs_by_claim(reports: Sequence[Report]) -> Mapping[str, tuple[int, ...]]:
    """Return of each claim the numbers of runs at which reports looked at it."""
    found: dict[str, set[int]] = {}
    for report in reports:
        for name, claim in report.claims.items():
            found.setdefault(name, set()).add(claim.runs)
    return {name: tuple(sorted(runs)) for name, runs in found.items()}


def looks_note(looks: CountedLooks) -> str:
    """Say which report of its study this is, and what its looks cost."""
    level = f"{looks.level:.0%}"
    runs = ", ".join(
        str(low) if low == high else f"{low} to {high}"
        for low, high in (report.runs for report in looks.reports)
    )
    this = f"{_ordinal(looks.number)} report of this study (n = {runs})"
    if looks.plan == "any":
        return f"{this}; tests hold {level} over looks at any time"
    if looks.plan is None:
        peeking = f"; every uncorrected look adds to the {level}" if looks.is_costly else ""
        return f"{this}: no looks were planned{peeking}"
    planned = f"planned looks at n = {', '.join(map(str, looks.plan))}"
    if looks.is_beyond:
        return f"{this}, beyond its {planned}, which spent the whole {level}: this look adds to it"
    return f"{this}, within its {planned}: tests hold {level} over all of them together"


def _ordinal(number: int) -> str:
    teens = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
