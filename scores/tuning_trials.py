"""What the tuning of a study tried and chose, and the rules by which it goes on: they know losses, no runs.

``<study>/tuning.json`` is replaced whole by whoever runs the study, each time that a round has ended. Which
runs come next follows from it, so the same command arrives at the same choice whenever it was interrupted.

Reading order: a ``TuningPlan`` is what a study's file says; ``Tuning`` holds the rounds that have ended and
says what is due (``due``) and what follows from losses (``advanced``); ``scores.tuning_grid`` has the grids.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from base.records import read_needed, write_record
from base.run.folder_names import StudyFolder
from scores.stages import Places
from scores.tuning_grid import Point, Value, best, edges, is_positive, open_sides, points, widened


def mean_loss(losses: Sequence[float | None]) -> float:
    """Average the losses of a point's runs; infinite where one of them diverged, which has none."""
    finite = [loss for loss in losses if loss is not None]
    return math.fsum(finite) / len(finite) if len(finite) == len(losses) else math.inf


@dataclass(frozen=True, kw_only=True)
class _InSetting:
    family: str
    places: Places

    @property
    def setting(self) -> tuple[str, Places]:
        """Family and places, in each of which every variant is tuned."""
        return self.family, self.places

    def trial(self, variant: str, point: Point) -> Trial:
        """A variant that is to be trained here at a point."""
        return Trial(family=self.family, places=self.places, variant=variant, point=point)


@dataclass(frozen=True, kw_only=True)
class Group(_InSetting):
    """Variants of one setting whose rounds end together."""

    variants: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _OfVariant(_InSetting):
    variant: str

    @property
    def arm(self) -> tuple[str, Places, str]:
        """Family, places and variant."""
        return self.family, self.places, self.variant


@dataclass(frozen=True, kw_only=True)
class Trial(_OfVariant):
    """What is to be trained at every tuning seed."""

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

    @property
    def numbers(self) -> list[float]:
        """Losses, nan where a run diverged."""
        return [math.nan if loss is None else loss for loss in self.losses]


@dataclass(frozen=True, kw_only=True)
class Round(Group):
    """Runs of a group that were compared together, with those of its rounds before."""

    grid: dict[str, tuple[Value, ...]]
    """All values so far."""
    made: str
    """The day."""
    tried: tuple[Tried, ...]


@dataclass(frozen=True, kw_only=True)
class Choice(_OfVariant):
    """The point of a variant in a setting at which it is trained."""

    point: Point
    loss: float | None
    """Mean held-out loss of its tuning runs; none where runs diverged at every point."""


Losses = Callable[[Trial, Sequence[int]], tuple[float | None, ...] | None]
"""Losses of runs by seed; None where not all of them have ended."""


ChoosePlaces = Callable[[Sequence[float], Sequence[Sequence[Sequence[float]]]], Iterable[int]]
"""Places of the chosen values (V,), of their logarithms (R,) and losses (V, R, T), nan where a run diverged.

``report.statistics.tuning_curves.chosen_places``.
"""


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
    by_curve: bool = False
    """Whether values are chosen along curves; the lowest mean is in studies from before there were any, for
    variants that enter later, too, which would gain on the others by a better rule."""
    cells: tuple[str, ...] = ()
    """Runs of the first round, whose names say how they are trained."""
    later: tuple[tuple[str, ...], ...] = ()
    """Variants that entered when others had been tuned, those that entered together in one."""

    @property
    def founders(self) -> tuple[str, ...]:
        """Variants that were there from the first round on."""
        return tuple(name for name in self.variants if not any(name in entered for entered in self.later))

    @property
    def groups(self) -> list[Group]:
        """Who goes on together: variants of a setting that entered together, as they share a grid."""
        return [
            Group(family=family, places=places, variants=variants)
            for family, places in self.settings
            for variants in (self.founders, *self.later)
        ]

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
            settings=tuple(dict.fromkeys((*self.settings, *other.settings))),
            cells=other.cells,
            later=(*self.later, entered) if entered else self.later,
        )

    def what_differs(self, other: TuningPlan) -> str | None:
        """Name the first field in which another plan is none that this one may grow to.

        The order of seeds, variants, settings and cells in a study's file means nothing.
        """
        plans = (
            replace(plan, seeds=tuple(sorted(plan.seeds)), later=(), by_curve=True) for plan in (self, other)
        )
        ours, theirs = map(vars, plans)
        for name, value in ours.items():
            may_grow = name in ("variants", "settings", "cells")
            if not (set(value) <= set(theirs[name]) if may_grow else value == theirs[name]):
                return name
        return None


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What was planned, the rounds that have ended, and what they chose."""

    plan: TuningPlan
    rounds: tuple[Round, ...] = ()
    chosen: tuple[Choice, ...] = ()
    """Of groups that are through."""

    @property
    def is_over(self) -> bool:
        """Whether every variant has its best point in every setting."""
        return len(self.chosen) == len(self.plan.settings) * len(self.plan.variants)

    @property
    def progress(self) -> str:
        """Say how many rounds have ended, and how much of the choice is made."""
        num_choices = len(self.plan.settings) * len(self.plan.variants)
        rounds = f"{len(self.rounds)} round{'s' * (len(self.rounds) != 1)}"
        choices = "all chosen" if self.is_over else f"{len(self.chosen)} of {num_choices} chosen"
        return f"tuning: {rounds}, {choices}"

    def choice(self, family: str, places: Places, variant: str) -> Choice | None:
        """What was chosen for a variant in a setting; None before."""
        return next((one for one in self.chosen if one.arm == (family, places, variant)), None)

    def shared(self, family: str, places: Places) -> Choice | None:
        """What a study with one point for all would have used in a setting: the baseline's best."""
        return self.choice(family, places, self.plan.baseline)

    @property
    def chosen_in_order(self) -> list[Choice]:
        """Choices by setting and variant as the plan names them, whichever was made first."""
        settings, variants = self.plan.settings, self.plan.variants
        return sorted(self.chosen, key=lambda one: (settings.index(one.setting), variants.index(one.variant)))

    def tried_of(self, choice: Choice) -> list[Tried]:
        """Every point that was tried with the variant of a choice, in its setting."""
        rounds = [each for each in self.rounds if each.setting == choice.setting]
        return [one for each in rounds for one in each.tried if one.variant == choice.variant]

    def at_edge(self, choice: Choice) -> tuple[str, ...]:
        """Fields at whose edge a choice lies."""
        return edges(choice.point, [(one.point, one.mean) for one in self.tried_of(choice)])

    def trials(self) -> list[Trial]:
        """All that was tried, and what the groups that are not through have to try now."""
        ended = [each.trial(one.variant, one.point) for each in self.rounds for one in each.tried]
        return ended + [trial for group in self.plan.groups for trial in self.due(group)]

    def due(self, group: Group) -> list[Trial]:
        """What a group has to try in its present round; nothing where it is through."""
        rounds, grid = self._rounds_of(group), self._next_grid(group)
        if grid is None:
            return []
        before = points(rounds[-1].grid) if rounds else []
        untried = [point for point in points(grid) if point not in before]
        return [group.trial(variant, point) for point in untried for variant in group.variants]

    def _rounds_of(self, group: Group) -> list[Round]:
        """The rounds of a group, in order."""
        key = (group.setting, group.variants)
        return [each for each in self.rounds if (each.setting, each.variants) == key]

    def _next_grid(self, group: Group) -> dict[str, tuple[Value, ...]] | None:
        """Return the grid that a group tries next; None for nothing, as yet.

        It grows behind each end at which any variant has its best, for all variants alike, at most
        ``plan.widen`` times. Who enters later tries, in one round, all that the others tried in several, so
        that it has as many runs; before they are through it waits.
        """
        # Rates 1, 3, 10 and a best of 10 for one variant of three: the next grid is 1, 3, 10, 33.33 for all
        # three, so that none has had more tries than another. The new point alone is run (``due``).
        rounds = self._rounds_of(group)
        if group.variants != self.plan.founders:
            founders = replace(group, variants=self.plan.founders)
            rounds_before = self._rounds_of(founders)
            is_waiting = bool(rounds) or not rounds_before or self._next_grid(founders) is not None
            return None if is_waiting else rounds_before[-1].grid
        if not rounds:
            return self.plan.fields
        if len(rounds) > self.plan.widen:
            return None
        grid = rounds[-1].grid
        bests = [best(grid, _losses(rounds, variant))[0] for variant in group.variants]
        sides = [side for point in bests for side in open_sides(grid, point)]
        return widened(grid, sides) if sides else None

    def advanced(self, losses: Losses, today: str, choose: ChoosePlaces) -> Tuning:
        """Return it with the rounds that have ended, and what they chose."""
        now = self
        for group in self.plan.groups:
            # Several rounds may have ended since somebody looked, as after a job that was restarted.
            while (ended := now._ended(group, losses, today)) is not None:
                now = now._with(group, ended, choose)
        return now

    def _ended(self, group: Group, losses: Losses, today: str) -> Round | None:
        """The present round of a group, if all its runs have ended."""
        grid, tried = self._next_grid(group), []
        for trial in self.due(group):
            of_trial = losses(trial, self.plan.seeds)
            if of_trial is None:
                return None
            tried.append(Tried(variant=trial.variant, point=trial.point, losses=of_trial))
        return None if grid is None else Round(**vars(group), grid=grid, made=today, tried=tuple(tried))

    def _with(self, group: Group, ended: Round, choose: ChoosePlaces) -> Tuning:
        now = replace(self, rounds=(*self.rounds, ended))
        if now._next_grid(group) is not None:
            return now
        choices = _choices(now._rounds_of(group), choose if self.plan.by_curve else None)
        return replace(now, chosen=(*self.chosen, *choices))


def _choices(rounds: Sequence[Round], choose: ChoosePlaces | None) -> Iterator[Choice]:
    """Yield what is chosen for each variant of a group that is through.

    From the point of the lowest mean on, each field that has an order is chosen along a curve, one after the
    other; without ``choose`` it is that point. A variant that diverged at every point has the first one.
    """
    last = rounds[-1]
    tried = {name: [x for each in rounds for x in each.tried if x.variant == name] for name in last.variants}
    chosen = {name: best(last.grid, _losses(rounds, name))[0] for name in last.variants}
    trained = [name for name, points in tried.items() if any(math.isfinite(one.mean) for one in points)]
    for field, values in last.grid.items():
        numbers = [float(value) for value in values if is_positive(value)]
        if choose is None or not trained or len(numbers) < len(values):
            continue
        along = [[_tried_at(tried[name], {**chosen[name], field: x}) for x in values] for name in trained]
        places = choose(
            [math.log(number) for number in numbers], [[x.numbers for x in line] for line in along]
        )
        chosen |= {name: line[place].point for name, line, place in zip(trained, along, places, strict=True)}
    for name, point in chosen.items():
        mean = _tried_at(tried[name], point).mean
        loss = mean if math.isfinite(mean) else None
        yield Choice(family=last.family, places=last.places, variant=name, point=point, loss=loss)


def _tried_at(tried: Sequence[Tried], point: Point) -> Tried:
    return next(one for one in tried if one.point == point)


def _losses(rounds: Sequence[Round], variant: str) -> list[tuple[Point, float]]:
    return [(one.point, one.mean) for each in rounds for one in each.tried if one.variant == variant]


def read_tuning(study: Path) -> Tuning | None:
    """Read what was tuned in a study's folder; None where no round has ended.

    Raises:
        UsageError: If the file does not parse: intervals would be too short without it.
    """
    return read_needed(StudyFolder(study).tuning_file, Tuning, "choose again from the tuning runs")


def write_tuning(study: Path, tuning: Tuning) -> None:
    """Replace what is recorded of a study's tuning in one step."""
    write_record(StudyFolder(study).tuning_file, tuning)
