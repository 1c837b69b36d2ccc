"""Where a run stands in a study (places and stage), and what its interim analyses decided.

A study may add seeds only to what is undecided. ``<study>/decisions.json`` is replaced whole by whoever runs
the study, once a look. Which cells are needed follows from it, so the same command arrives at the same end
whenever it was interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from base.records import read_needed, write_record
from base.run.folder_names import StudyFolder

Places = tuple[tuple[str, str], ...]
"""Axes of a study beside family and variant, and a run's value on each: ``(("size", "0.5M"),)``."""

Stage = Literal["tune", "main", "shared"]
TUNE: Final = "tune"
"""Runs that learning rates are chosen by."""
MAIN: Final = "main"
"""Runs that are compared."""
SHARED: Final = "shared"
"""Runs at the point that is best for the baseline, beside those of MAIN."""


def is_cut_off(content: Mapping[str, Any]) -> bool:
    """Whether a study's file, as its command writes it, has lost its end, which names the runs."""
    cells, is_counted = content.get("cells"), not content.keys().isdisjoint(("typed", "num_cells"))
    return is_counted and (not isinstance(cells, list) or len(cells) != content.get("num_cells"))


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A primary comparison as it stood at a look."""

    comparison: str
    """``relu - gelu``, as the report writes it."""
    outcome: str
    """The metric."""
    verdict: str
    is_decided: bool


@dataclass(frozen=True, kw_only=True)
class Look:
    """One interim analysis, by which it was decided who gets more seeds."""

    seeds: int
    """Of every arm whose comparisons were undecided before."""
    made: str
    """The day."""
    claims: tuple[Decision, ...]
    go_on: tuple[str, ...]
    """Variants that get more seeds; none after the last look."""


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """Planned looks, and those that were made."""

    plan: Mapping[str, Any]
    """What was fixed before the first look: ``looks``, their numbers of seeds, ``variants``, and more."""
    looks: tuple[Look, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a plan that is none: by looks at 12, 8, 4 seeds, or at none, a look would be forgotten.

        Raises:
            ValueError: If it lacks growing numbers of seeds, or a list of variants.
        """
        looks, variants = self.plan.get("looks"), self.plan.get("variants")
        are_numbers = isinstance(looks, list) and all(type(seeds) is int for seeds in looks)
        if not are_numbers or not looks or looks != sorted(set(looks)) or not isinstance(variants, list):
            raise ValueError("it plans no looks")

    @property
    def planned(self) -> tuple[int, ...]:
        """Seeds at every look."""
        return tuple(self.plan["looks"])

    @property
    def is_over(self) -> bool:
        """Whether no look remains to be made."""
        return bool(self.looks) and not self.looks[-1].go_on

    @property
    def progress(self) -> str:
        """Say which look was the latest, and how much it left undecided."""
        if not self.looks:
            return f"no look yet, of {len(self.planned)}"
        latest = self.looks[-1]
        num_decided = sum(claim.is_decided for claim in latest.claims)
        return (
            f"look {len(self.looks)} of {len(self.planned)}, at {latest.seeds} seeds: {num_decided} of "
            f"{len(latest.claims)} comparisons decided"
        )

    def num_seeds(self, variant: str) -> int | None:
        """How many seeds a variant has to have by now; None for what is no variant of the study."""
        if variant not in self.plan["variants"]:
            return None
        stages = zip(self.looks, self.planned[1:], strict=False)
        return max([self.planned[0], *(seeds for look, seeds in stages if variant in look.go_on)])

    @property
    def runs_used(self) -> str:
        """Say how many runs there have to be by now, of those that all seeds for every variant would take."""
        num_all, variants, most = len(self.plan.get("cells", ())), self.plan["variants"], self.planned[-1]
        # Every variant has as many cells at a seed.
        per_seed = num_all // (len(variants) * most)
        due = per_seed * sum(self.num_seeds(variant) or 0 for variant in variants)
        return f"{due:,} runs of the {num_all:,} of a plan with {most} seeds for every variant"

    def decided(self) -> dict[tuple[str, str], tuple[int, str]]:
        """By comparison and metric, at how many seeds it was decided first and how."""
        return {
            (claim.comparison, claim.outcome): (look.seeds, claim.verdict)
            for look in reversed(self.looks)
            for claim in look.claims
            if claim.is_decided
        }


def read_decisions(study: Path) -> Decisions | None:
    """Read what was decided in a study's folder; None where seeds are no matter of decisions.

    Raises:
        UsageError: If the file is damaged.
    """
    return read_needed(StudyFolder(study).decisions_file, Decisions, "make the looks again from the first")


def write_decisions(study: Path, decisions: Decisions) -> None:
    """Replace what is recorded of a study's looks in one step."""
    write_record(StudyFolder(study).decisions_file, decisions)
