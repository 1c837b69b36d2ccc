"""What the tuning of a study tried, found and chose.

``<study>/tuning.json`` is replaced whole by whoever runs the study, each time that a round has ended. Which
runs come next follows from it, so the same command arrives at the same choice whenever it was interrupted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from base.errors import UsageError
from base.records import parse_record, write_record
from base.run.folders import StudyFolder
from scores.stages import Places
from scores.tuning_rules import (
    Point,
    Value,
    best,
    edges,
    mean_loss,
    open_sides,
    points,
    widened,
)


@dataclass(frozen=True, kw_only=True)
class TuningPlan:
    """What was fixed before the first round ended."""

    fields: dict[str, tuple[Value, ...]]
    """The first grid, by the dotted names of fields of the configuration."""
    seeds: tuple[int, ...]
    select: str
    """What the best has the lowest of."""
    widen: int
    """How often the grid of a setting may grow."""
    shared: bool
    """Whether all variants train at the baseline's best too."""
    baseline: str
    variants: tuple[str, ...]
    settings: tuple[tuple[str, Places], ...]
    """Families and places, in each of which every variant is tuned."""
    cells: tuple[str, ...] = ()
    """Runs of the first round, whose names say how they are trained."""
    later: tuple[tuple[str, ...], ...] = ()
    """Variants that entered when others had been tuned, those that entered together in one."""

    @property
    def in_order(self) -> TuningPlan:
        """The same with sorted lists, to be compared: their order in a study's file means nothing."""
        return replace(
            self,
            seeds=tuple(sorted(self.seeds)),
            variants=tuple(sorted(self.variants)),
            settings=tuple(sorted(self.settings)),
            cells=tuple(sorted(self.cells)),
        )

    @property
    def founders(self) -> tuple[str, ...]:
        """Variants that were there from the first round on."""
        return tuple(name for name in self.variants if not any(name in entered for entered in self.later))

    def grown_to(self, other: TuningPlan) -> TuningPlan | None:
        """Return this plan with the variants and settings that another has beside its own.

        None where the other lacks one of this plan's, or trains or tunes otherwise.
        """
        if self.what_differs(other) is not None:
            return None
        entered = tuple(name for name in other.variants if name not in self.variants)
        return replace(
            self,
            variants=(*self.variants, *entered),
            settings=(*self.settings, *(one for one in other.settings if one not in self.settings)),
            cells=other.cells,
            later=(*self.later, entered) if entered else self.later,
        )

    def what_differs(self, other: TuningPlan) -> str | None:
        """Name the first field in which another plan is none that this one may grow to."""
        ours, theirs = vars(self.in_order), vars(other.in_order)
        for name in ours:
            if name in ("variants", "settings", "cells"):
                if not set(ours[name]) <= set(theirs[name]):
                    return name
            elif name != "later" and ours[name] != theirs[name]:
                return name
        return None

    @property
    def groups(self) -> list[Group]:
        """Who goes on together: variants of a setting that entered together, as they share a grid."""
        entered = (self.founders, *self.later)
        return [Group(family, places, some) for family, places in self.settings for some in entered]


@dataclass(frozen=True)
class Group:
    """Variants of one family at one place whose rounds end together."""

    family: str
    places: Places
    variants: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be trained at every tuning seed."""

    family: str
    places: Places
    variant: str
    point: Point


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What the runs of one variant at one point came to."""

    variant: str
    point: Point
    losses: tuple[float | None, ...]
    """Held-out loss at each tuning seed, in nats per target token; none of one that diverged."""

    @property
    def mean(self) -> float:
        """Infinite where a run diverged."""
        return mean_loss(self.losses)


@dataclass(frozen=True, kw_only=True)
class Round:
    """Runs of a group that were compared together, with those of its rounds before."""

    family: str
    places: Places
    variants: tuple[str, ...]
    grid: dict[str, tuple[Value, ...]]
    """All values so far."""
    made: str
    """The day."""
    tried: tuple[Tried, ...]


@dataclass(frozen=True, kw_only=True)
class Further:
    """Runs about a choice at seeds of their own: they choose nothing, and say what the choice may miss."""

    family: str
    places: Places
    variant: str
    field: str
    """Along which; other fields have their chosen values."""
    values: tuple[Value, ...]
    seeds: tuple[int, ...]
    losses: tuple[tuple[float | None, ...], ...] = ()
    """(values, seeds) as those of ``Tried``; empty until all runs have ended."""

    def wanted(self, chosen: Point) -> list[Wanted]:
        """What is to be trained at every one of its seeds, by value."""
        return [
            Wanted(
                family=self.family,
                places=self.places,
                variant=self.variant,
                point={**chosen, self.field: value},
            )
            for value in self.values
        ]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The best point of a variant in a setting."""

    family: str
    places: Places
    variant: str
    point: Point
    loss: float | None
    """Mean held-out loss of its tuning runs; none where runs diverged at every point."""


Losses = Callable[[Wanted, Sequence[int]], tuple[float | None, ...] | None]
"""Losses of runs by seed; None where not all of them have ended."""


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What was planned, the rounds that have ended, and what they chose."""

    plan: TuningPlan
    rounds: tuple[Round, ...] = ()
    chosen: tuple[Choice, ...] = ()
    """Of groups that are through."""
    further: tuple[Further, ...] = ()
    """Runs that were added when all was chosen."""

    @property
    def is_over(self) -> bool:
        """Whether every variant has its best point in every setting."""
        return len(self.chosen) == len(self.plan.settings) * len(self.plan.variants)

    @property
    def awaits_further(self) -> bool:
        """Whether runs that were added to a tuning have not all ended."""
        return any(not each.losses for each in self.further)

    def further_of(self, choice: Choice) -> list[Further]:
        """What was added about a choice, in order."""
        own = choice.family, choice.places, choice.variant
        return [each for each in self.further if (each.family, each.places, each.variant) == own]

    def wanted_further(self) -> list[tuple[Wanted, Sequence[int]]]:
        """Return what was added, with its seeds."""
        return [
            (one, each.seeds)
            for choice in self.chosen
            for each in self.further_of(choice)
            for one in each.wanted(choice.point)
        ]

    @property
    def progress(self) -> str:
        """Say how many rounds have ended, and how much of the choice is made."""
        of = len(self.plan.settings) * len(self.plan.variants)
        rounds = f"{len(self.rounds)} round{'s' * (len(self.rounds) != 1)}"
        made = "all chosen" if self.is_over else f"{len(self.chosen)} of {of} chosen"
        further = ", further runs about what was chosen" if self.awaits_further else ""
        return f"tuning: {rounds}, {made}{further}"

    def choice(self, family: str, places: Places, variant: str) -> Choice | None:
        """What was chosen for a variant in a setting; None before."""
        found = (
            one for one in self.chosen if (one.family, one.places, one.variant) == (family, places, variant)
        )
        return next(found, None)

    @property
    def chosen_in_order(self) -> list[Choice]:
        """Choices by setting and variant as the plan names them, whichever was made first."""
        settings, variants = self.plan.settings, self.plan.variants
        return sorted(
            self.chosen,
            key=lambda one: (settings.index((one.family, one.places)), variants.index(one.variant)),
        )

    def at_edge(self, choice: Choice) -> tuple[str, ...]:
        """Fields at whose edge a choice lies."""
        return edges(choice.point, [(one.point, one.mean) for one in self.tried_of(choice)])

    def tried_of(self, choice: Choice) -> list[Tried]:
        """Every point that was tried with the variant of a choice, in its setting."""
        rounds = [x for x in self.rounds if (x.family, x.places) == (choice.family, choice.places)]
        return [one for each in rounds for one in each.tried if one.variant == choice.variant]

    def shared(self, family: str, places: Places) -> Choice | None:
        """What a study with one point for all would have used in a setting: the baseline's best."""
        return self.choice(family, places, self.plan.baseline)

    def rounds_of(self, group: Group) -> list[Round]:
        """The rounds of a group, in order."""
        return [
            each
            for each in self.rounds
            if (each.family, each.places, each.variants) == (group.family, group.places, group.variants)
        ]

    def wanted(self) -> list[Wanted]:
        """All that was tried, and what the groups that are not through have to try now."""
        before = [
            Wanted(family=each.family, places=each.places, variant=one.variant, point=one.point)
            for each in self.rounds
            for one in each.tried
        ]
        return before + [one for group in self.plan.groups for one in self.due(group)]

    def due(self, group: Group) -> list[Wanted]:
        """What a group has to try in its present round; nothing where it is through."""
        rounds = self.rounds_of(group)
        grid = self.following(group)
        if grid is None:
            return []
        before = points(rounds[-1].grid) if rounds else []
        return [
            Wanted(family=group.family, places=group.places, variant=variant, point=point)
            for point in points(grid)
            if point not in before
            for variant in group.variants
        ]

    def following(self, group: Group) -> dict[str, tuple[Value, ...]] | None:
        """Return the grid that a group tries next; None for nothing, as yet.

        Who enters later tries, in one round, all that the others tried in several, so that it has as many
        runs; before they are through it waits.
        """
        rounds = self.rounds_of(group)
        if group.variants == self.plan.founders:
            return next_grid(self.plan, rounds)
        first = self.rounds_of(replace(group, variants=self.plan.founders))
        if rounds or not first or next_grid(self.plan, first) is not None:
            return None
        return first[-1].grid

    def advanced(self, losses: Losses, today: str) -> Tuning:
        """Return it with the rounds that have ended, and what they chose."""
        now = self
        for group in self.plan.groups:
            while (ended := now._ended(group, losses, today)) is not None:
                now = now._with(group, ended)
        return replace(now, further=tuple(now._further_ended(each, losses) for each in now.further))

    def _further_ended(self, further: Further, losses: Losses) -> Further:
        """Return runs that were added with their losses, if all of them have ended."""
        choice = self.choice(further.family, further.places, further.variant)
        if choice is None or further.losses:
            return further
        found = [losses(one, further.seeds) for one in further.wanted(choice.point)]
        ended = tuple(values for values in found if values is not None)
        return replace(further, losses=ended) if len(ended) == len(found) else further

    def _ended(self, group: Group, losses: Losses, today: str) -> Round | None:
        """The present round of a group, if all its runs have ended."""
        due = self.due(group)
        found = [(one, losses(one, self.plan.seeds)) for one in due]
        grid = self.following(group)
        if grid is None or any(values is None for _, values in found):
            return None
        tried = (Tried(variant=w.variant, point=w.point, losses=values) for w, values in found if values)
        return Round(
            family=group.family,
            places=group.places,
            variants=group.variants,
            grid=grid,
            made=today,
            tried=tuple(tried),
        )

    def _with(self, group: Group, ended: Round) -> Tuning:
        now = replace(self, rounds=(*self.rounds, ended))
        rounds = now.rounds_of(group)
        if now.following(group) is not None:
            return now
        chosen = [choose(rounds, variant) for variant in group.variants]
        return replace(now, chosen=(*self.chosen, *chosen))


def next_grid(plan: TuningPlan, rounds: Sequence[Round]) -> dict[str, tuple[Value, ...]] | None:
    """Return the grid that a group tries after some rounds; None where it is through.

    It grows behind each end at which any variant has its best, for all variants alike, at most ``plan.widen``
    times.
    """
    if not rounds:
        return plan.fields
    grid = rounds[-1].grid
    bests = [best(grid, _losses(rounds, variant)) for variant in rounds[-1].variants]
    sides = [side for point in bests for side in open_sides(grid, point)]
    if not sides or len(rounds) > plan.widen:
        return None
    return widened(grid, sides)


def choose(rounds: Sequence[Round], variant: str) -> Choice:
    """Return the best point of a variant of a group that is through."""
    grid, losses = rounds[-1].grid, _losses(rounds, variant)
    point = best(grid, losses)
    loss = next(value for one, value in losses if one == point)
    return Choice(
        family=rounds[-1].family,
        places=rounds[-1].places,
        variant=variant,
        point=point,
        loss=loss if math.isfinite(loss) else None,
    )


def _losses(rounds: Sequence[Round], variant: str) -> list[tuple[Point, float]]:
    return [(one.point, one.mean) for each in rounds for one in each.tried if one.variant == variant]


def read_tuning(study: Path) -> Tuning | None:
    """Read what was tuned in a study's folder; None where no round has ended.

    Raises:
        UsageError: If the file does not parse: intervals would be too short without it.
    """
    path = StudyFolder(study).tuning_file
    if not path.exists():
        return None
    try:
        return _TUNING.validate_json(json.dumps(parse_record(path.read_bytes())), strict=True)
    except (OSError, ValueError, RecursionError):
        raise UsageError(
            f"{path} is damaged; restore it, or remove it to choose again from the tuning runs"
        ) from None


def write_tuning(study: Path, tuning: Tuning) -> None:
    """Replace what is known of a study's tuning in one step."""
    write_record(StudyFolder(study).tuning_file, tuning)


_TUNING = TypeAdapter(Tuning)
