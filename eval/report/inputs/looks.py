"""Which of a study's reports this one is, and what it costs to have looked so often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eval.report.inputs.history import Claim, History, Report
from eval.significance.comparison import Comparison
from eval.significance.statistics.looks import FEWEST, Plan, PlannedLooks


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
