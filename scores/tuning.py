"""Which values a tuning tries next, and which it chooses: rules that know losses and nothing else.

A grid gives each field its values, the numbers in rising order; a point is one value of each field, and the
points of a grid are the product, the last field varying fastest.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from base.errors import UsageError
from base.records import parse_record, write_record
from base.run.folders import StudyFolder
from scores.stages import Places

Value = bool | int | float | str
Point = dict[str, Value]
Grid = Mapping[str, Sequence[Value]]
Side = tuple[str, bool]
"""A field, and whether it is its upper end that is meant."""

DIGITS = 4
"""Significant digits of a value beyond the grid: 0.003 and not 0.0030000000000000005."""


def is_number(value: Value) -> bool:
    """Whether a value is one of which there are greater and smaller ones."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def points(grid: Grid) -> list[Point]:
    """Return all points of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def best(grid: Grid, losses: Sequence[tuple[Point, float]]) -> Point:
    """Return the point of the lowest loss; of equal ones the first in the grid, so the lower rate.

    Args:
        grid: What the points are of.
        losses: Mean loss of points; infinite where a run diverged. At least one.
    """
    order = points(grid)
    point, _ = min(losses, key=lambda pair: (pair[1], order.index(pair[0])))
    return point


def edges(point: Point, losses: Sequence[tuple[Point, float]]) -> tuple[str, ...]:
    """Name the fields of which a point has the smallest or greatest number: a better one may lie beyond.

    A field's values are compared at the point's values of the others. Those that diverged are beyond the
    edge, and names have none.

    Args:
        point: The best one.
        losses: Mean loss of all points that were tried; infinite where a run diverged.
    """
    found = []
    for field in point:
        rest = {**point, field: None}
        values = [one[field] for one, loss in losses if math.isfinite(loss) and {**one, field: None} == rest]
        if values and all(map(is_number, values)) and point[field] in (min(values), max(values)):  # type: ignore[type-var]
            found.append(field)
    return tuple(found)


def open_sides(grid: Grid, point: Point) -> list[Side]:
    """Name the ends of the grid at which a point lies and behind which there are further values."""
    ends = [(field, is_upper) for field in grid for is_upper in (False, True)]
    return [
        (field, is_upper)
        for field, is_upper in ends
        if point[field] == grid[field][-1 if is_upper else 0] and beyond(grid[field], is_upper) is not None
    ]


def beyond(values: Sequence[Value], is_upper: bool) -> Value | None:
    """Return the value behind an end of a grid: as far from it, as a ratio, as its neighbour is.

    Args:
        values: A field's, in rising order.
        is_upper: Behind the greatest instead of the smallest.

    Returns:
        Rounded to ``DIGITS`` significant digits, and to a whole number where all values are; None where there
        is none, as of names, of zero, or of whole numbers that would be tried twice.
    """
    last, before = (values[-1], values[-2]) if is_upper else (values[0], values[1])
    if not (is_number(last) and is_number(before)) or min(last, before) <= 0:  # type: ignore[type-var]
        return None
    found = float(f"{last * last / before:.{DIGITS}g}")  # type: ignore[operator]
    if all(isinstance(value, int) for value in values):
        found = round(found)
    return found if found > 0 and found not in values else None


def widened(grid: Grid, sides: Iterable[Side]) -> dict[str, tuple[Value, ...]]:
    """Return a grid with one value more behind each of some ends."""
    wider = {field: tuple(values) for field, values in grid.items()}
    for field, is_upper in dict.fromkeys(sides):
        value = beyond(grid[field], is_upper)
        assert value is not None
        wider[field] = (*wider[field], value) if is_upper else (value, *wider[field])
    return wider


def widest(grid: Grid, times: int) -> dict[str, tuple[Value, ...]]:
    """Return a grid that has grown behind every end, so many times."""
    wider = {field: tuple(values) for field, values in grid.items()}
    for _ in range(times):
        sides = [(field, is_upper) for field in wider for is_upper in (False, True)]
        wider = widened(wider, [side for side in sides if beyond(wider[side[0]], side[1]) is not None])
    return wider


def mean_loss(losses: Sequence[float | None]) -> float:
    """Average the losses of a point's runs; infinite where one of them diverged, which has none."""
    known = [loss for loss in losses if loss is not None]
    return math.fsum(known) / len(known) if len(known) == len(losses) else math.inf


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
