"""What a study's tuning chose, what its choices add to the uncertainty, and the runs at the shared rate.

A study's ``tuning.json`` has the losses of all tuning runs. Comparisons of the held-out loss, which the
tuning selects by, carry what the choices add (``eval.significance.statistics.tuning``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from base.errors import UsageError
from eval.report.inputs.sources import Source
from eval.results.outcome import Outcome
from eval.results.stages import SHARED, TUNE
from eval.results.tuning import Choice, Tried, Tuning, missing_tuning, read_tuning
from eval.results.tuning_rules import Point, Value, is_number
from eval.significance.arms import ArmTable, Key
from eval.significance.axes import Benchmark, Family, Level, places_of, plain
from eval.significance.statistics import tuning as statistics
from eval.significance.statistics.tuning import Curve, Curves, Noise, Selection
from eval.suites.registry import HELD_OUT

TUNED_BY = Benchmark(HELD_OUT)
"""What a study's tuning selects by."""
MORE_SEEDS = 2
"""Further tuning seeds of which the report says what they would be worth."""
Variant = TypeVar("Variant")
"""Whatever tells the variants of a setting apart."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """One variant in one setting, along one tuned field at the chosen values of the others."""

    family: Family
    variant: Level
    choice: Choice
    field: str
    values: tuple[Value, ...]
    """Those at which no run diverged, in the order of the grid."""
    losses: np.ndarray
    """(R, T) held-out losses by value and tuning seed, nan where a further seed was not run."""
    chosen: int
    """Place of the chosen value."""
    is_at_edge: bool
    failing: str
    """A sentence where training begins to fail at the chosen value, else empty."""
    noise: Noise | None
    """Of the variant's runs, moderated by those of its setting; None where nothing tells of it."""
    fitted: Curves | None
    """The curve about the chosen value; None of fewer than three numbers."""
    selection: Selection | None
    """What the choice adds to the variance of the arm's mean."""
    selection_with_more: Selection | None
    """The same after ``MORE_SEEDS`` further tuning seeds with the same means; None without a curve."""
    of_curve: tuple[Value, ...]
    """Values that the curve goes through."""

    @property
    def means(self) -> np.ndarray:
        """(R,) over all tuning seeds of each value."""
        return np.nanmean(self.losses, axis=-1)

    @property
    def rates(self) -> np.ndarray | None:
        """(R,) logarithms of the values; None of values that have none."""
        return _logarithms(self.values)

    @property
    def share(self) -> float | None:
        """How often the chosen value would be chosen with other tuning seeds."""
        if self.noise is None:
            return None
        if self.fitted is None:
            return statistics.choice_share(
                self.means, _error(self.noise, self.losses, self.chosen), self.chosen
            )
        errors = self.fitted.errors[np.isfinite(self.fitted.means)]
        return statistics.choice_share(self.means, errors, self.chosen)

    @cached_property
    def curve(self) -> Curve | None:
        """Its lowest point, and what a threefold wrong value costs."""
        if self.fitted is None or self.rates is None:
            return None
        return statistics.curve(self.fitted, float(self.rates[self.chosen]))


def _error(noise: Noise, losses: np.ndarray, chosen: int) -> float:
    return math.sqrt(noise.variance / np.isfinite(losses[chosen]).sum())


def _logarithms(values: Sequence[Value]) -> np.ndarray | None:
    numbers = [float(value) for value in values if is_number(value) and float(value) > 0]
    return np.log(numbers) if len(numbers) == len(values) else None


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What was tuned, for one kind of variants."""

    plan: Tuning
    chosen: Mapping[Key, Choice]
    """By setting and variant, in the order of the plan."""
    lines: tuple[Line, ...]
    """Of every setting, there of every field, and there of every variant."""

    @cached_property
    def choices(self) -> dict[Key, Selection]:
        """What tuning adds to the variance of each arm's mean; what fields miss adds up."""
        return self.choices_after()

    def choices_after(self, variant: Level = "", name: str = "") -> dict[Key, Selection]:
        """Return the same as if a variant had ``MORE_SEEDS`` further tuning seeds along a field."""
        by_arm: dict[Key, list[Selection]] = {}
        for line in self.lines:
            is_tuned_further = (line.variant, line.field) == (variant, name)
            selection = (is_tuned_further and line.selection_with_more) or line.selection
            if selection is not None:
                by_arm.setdefault((line.family, line.variant), []).append(selection)
        return {key: statistics.combined(fields, [1.0] * len(fields)) for key, fields in by_arm.items()}

    @cached_property
    def num_runs(self) -> dict[Key, int]:
        """Tuning runs of each variant in each setting, without those that were added later."""
        return {
            key: sum(len(one.losses) for one in _tried(self.plan, choice))
            for key, choice in self.chosen.items()
        }

    @cached_property
    def num_rounds(self) -> dict[Key, int]:
        """Rounds that each variant took part in."""
        return {
            key: sum(
                (x.family, x.places) == (choice.family, choice.places) and choice.variant in x.variants
                for x in self.plan.rounds
            )
            for key, choice in self.chosen.items()
        }

    @property
    def shared_points(self) -> dict[Family, Point]:
        """What was best for the study's baseline, by setting; nothing where the study does not run it."""
        plan = self.plan.plan
        of_baseline = {key: x for key, x in self.chosen.items() if x.variant == plan.baseline and plan.shared}
        return {family: choice.point for (family, _), choice in of_baseline.items()}

    @property
    def at_edge(self) -> set[Key]:
        """Variants of which a better value may lie beyond what was tried."""
        return {(line.family, line.variant) for line in self.lines if line.is_at_edge}

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings of uncertainty that is in no interval."""
        few = {
            str(x.variant): x.field
            for x in self.lines
            if x.rates is not None and len(x.rates) < statistics.FEWEST
        }
        unknown = {str(x.variant): x.field for x in self.lines if x.noise is None}
        texts = {
            "fewer than three values were left to lay a curve through, so that what lies between and beyond "
            "them is in no interval; tune with more values": few,
            "what the choice adds to the uncertainty is not known, as no value has two runs": unknown,
        }
        of_choices = [
            f"{', '.join(sorted(names))} ({next(iter(names.values()))}): {text}"
            for text, names in texts.items()
            if names
        ]
        return (*of_choices, *_of_further(self.plan))


def _of_further(tuning: Tuning) -> Iterable[str]:
    """Say which runs that were added to the tuning diverged, and that others have not ended."""
    for each in tuning.further:
        named = f"{each.variant}, {each.field}"
        if not each.losses:
            yield f"tuning runs that were added have not all ended ({named}); the study's command goes on"
        for value, losses in zip(each.values, each.losses, strict=bool(each.losses)):
            if number := sum(loss is None for loss in losses):
                yield (
                    f"{number} of {len(losses)} tuning runs that were added at {named} {value} diverged; "
                    "seeds at which one did are left out"
                )


def read_tuned(source: Source, seen: Source, runs: pd.DataFrame) -> Tuned | None:
    """Read what a study's tuning chose, for the variants that a report compares.

    Args:
        source: The study.
        seen: The same by the factor of the report, with the same runs in the same order.
        runs: Held-out loss by family, variant and seed; stands for the spread of tunings of one seed.

    Returns:
        None where the study was not tuned, or its models are not what is compared.

    Raises:
        UsageError: If the file is damaged, or gone beside runs of a tuning: intervals would be too short.
    """
    if source.kind != "study folder" or seen.factor in ("head", "both"):
        return None
    tuning = read_tuning(source.path)
    if tuning is None and source.stages.get(TUNE):
        raise UsageError(missing_tuning(source.path))
    if tuning is None or not tuning.chosen:
        return None
    keys = _report_keys(source, seen)
    compared = {
        key: choice
        for choice in tuning.chosen_in_order
        if (key := keys.get((choice.family, frozenset(choice.places), choice.variant)))
    }
    lines: list[Line] = []
    for setting in dict.fromkeys((x.family, x.places) for x in compared.values()):
        choices = {key: x for key, x in compared.items() if (x.family, x.places) == setting}
        losses = {(f, v): arm.to_numpy(float) for (f, v), arm in runs.groupby(["family", "variant"]).score}
        main = {key: losses.get(key, np.empty(0)) for key in choices}
        noises = _noises(tuning, choices, main)
        for name in tuning.plan.fields:
            lines += _lines(_grid(tuning, choices, name), tuning, choices, noises, main)
    return Tuned(plan=tuning, chosen=compared, lines=tuple(lines))


def _report_keys(source: Source, seen: Source) -> dict[tuple[str, frozenset[tuple[str, str]], Level], Key]:
    """What a run's family, places and variant are to the report."""
    return {
        (plain(a.family), frozenset(places_of(a.family)), a.variant): (b.family, b.variant)
        for a, b in zip(source.facts, seen.facts, strict=True)
    }


def _tried(tuning: Tuning, choice: Choice) -> list[Tried]:
    """Every point that was tried with the variant of a choice, in its setting."""
    return [
        one
        for each in tuning.rounds
        if (each.family, each.places) == (choice.family, choice.places)
        for one in each.tried
        if one.variant == choice.variant
    ]


def _along(tuning: Tuning, choice: Choice, name: str) -> dict[Value, list[float]]:
    """Losses by the values of a field, at the chosen ones of the others; without those where a run diverged.

    Behind the planned seeds stand the further ones, nan where a value was not run. A further seed at which a
    run diverged is left out: without one of its values the curve would go through fewer.
    """
    losses = {
        one.point[name]: [float(loss) for loss in one.losses if loss is not None]
        for one in _tried(tuning, choice)
        if {**one.point, name: None} == {**choice.point, name: None} and None not in one.losses
    }
    if choice.point[name] not in losses:
        return {}
    for each in tuning.further_of(choice):
        if each.field == name and each.losses:
            table = np.array(each.losses, dtype=float)
            further, has_ended = dict(zip(each.values, table, strict=True)), np.isfinite(table).all(0)
            nothing = np.full(len(each.seeds), math.nan)
            for value, of_value in losses.items():
                of_value += further.get(value, nothing)[has_ended].tolist()
    return losses


def _noises(
    tuning: Tuning, choices: Mapping[Key, Choice], main: Mapping[Key, np.ndarray]
) -> dict[Key, Noise | None]:
    """Return the spread over seeds at each variant's best point of one setting.

    Main runs are those that all variants were meant to have: what was decided with them must not change with
    the runs that others get later. At other points, the next higher rate above all, some seeds leave the
    unigram plateau late, which says nothing of the best one. That a point is chosen by its mean does not make
    the spread there smaller than it is: of normal runs the two are independent.
    """
    noises = []
    for key, choice in choices.items():
        planned = [x for one in _tried(tuning, choice) if one.point == choice.point for x in one.losses]
        further = [_along(tuning, choice, name).get(value, []) for name, value in choice.point.items()]
        further = [x for losses in further for x in losses[len(tuning.plan.seeds) :]]
        noises.append(statistics.own_noise([[x for x in (*planned, *further) if x is not None], main[key]]))
    if not any(noise.df for noise in noises):
        return dict.fromkeys(choices)
    variances, df = statistics.moderated_noise(*zip(*noises, strict=True))
    return {key: Noise(float(v), float(of)) for key, v, of in zip(choices, variances, df, strict=True)}


@dataclass(frozen=True, kw_only=True)
class _Grid:
    """What the variants of one setting came to along one field, each at its chosen values of the others."""

    field: str
    values: tuple[Value, ...]
    """All that are usable for any, in rising order."""
    chosen: dict[Any, int]
    """Places of the chosen values, by variant."""
    losses: np.ndarray
    """(V, R, T) at planned seeds, then at further ones; nan where a run diverged or there is none."""
    num_planned: int

    @property
    def is_usable(self) -> np.ndarray:
        """(V, R) where no planned run diverged."""
        return np.asarray(np.isfinite(self.losses[..., : self.num_planned]).all(-1))


def _grid(tuning: Tuning, choices: Mapping[Variant, Choice], name: str) -> _Grid:
    by_variant = {key: _along(tuning, choice, name) for key, choice in choices.items()}
    along = {key: losses for key, losses in by_variant.items() if losses}
    values = tuple(dict.fromkeys(value for losses in along.values() for value in losses))
    values = tuple(sorted(values)) if all(map(is_number, values)) else values  # type: ignore[type-var]
    most = max((len(x) for losses in along.values() for x in losses.values()), default=0)
    losses = np.full((len(along), len(values), most), math.nan)
    for i, of_variant in enumerate(along.values()):
        for value, of_value in of_variant.items():
            losses[i, values.index(value), : len(of_value)] = of_value
    return _Grid(
        field=name,
        values=values,
        chosen={key: values.index(choices[key].point[name]) for key in along},
        losses=losses,
        num_planned=len(tuning.plan.seeds),
    )


def _lines(
    grid: _Grid,
    tuning: Tuning,
    choices: Mapping[Key, Choice],
    noises: Mapping[Key, Noise | None],
    main: Mapping[Key, np.ndarray],
) -> Iterable[Line]:
    """Return the lines of one setting along one field."""
    fitted, failing = _curves(grid, noises), _failing(grid, main)
    selections, with_more = _selections(fitted), _selections(_curves(grid, noises, MORE_SEEDS))
    for i, (key, place) in enumerate(grid.chosen.items()):
        usable = np.flatnonzero(grid.is_usable[i])
        losses, noise = grid.losses[i, usable], noises[key]
        losses, chosen = losses[:, np.isfinite(losses).any(0)], usable.tolist().index(place)
        curved = fitted[key].fit.any(axis=0) if key in fitted else []
        yield Line(
            family=key[0],
            variant=key[1],
            choice=choices[key],
            field=grid.field,
            values=tuple(grid.values[place] for place in usable),
            losses=losses,
            chosen=chosen,
            is_at_edge=grid.field in tuning.at_edge(choices[key]),
            failing=failing.get(key, ""),
            noise=noise,
            fitted=fitted.get(key),
            selection=selections.get(key) or _selection_of_few(noise, losses, chosen),
            selection_with_more=with_more.get(key),
            of_curve=tuple(grid.values[place] for place in np.flatnonzero(curved)),
        )


def _curves(grid: _Grid, noises: Mapping[Key, Noise | None], more: int = 0) -> dict[Key, Curves]:
    """Lay a curve through the losses of each variant that has rates enough."""
    rates, noise = _logarithms(grid.values), [noises[key] for key in grid.chosen]
    if rates is None or len(rates) < statistics.FEWEST or None in noise:
        return {}
    variances, df = zip(*(each for each in noise if each), strict=True)
    fitted = statistics.fit_curves(rates, grid.losses, list(grid.chosen.values()), variances, df, more)
    return {key: fitted.of(i) for i, key in enumerate(grid.chosen) if np.isfinite(fitted.low[i])}


def _selections(curves: Mapping[Key, Curves]) -> dict[Key, Selection]:
    return {key: Selection(float(statistics.squared_regret(x)), float(x.df)) for key, x in curves.items()}


def _selection_of_few(noise: Noise | None, losses: np.ndarray, chosen: int) -> Selection | None:
    if noise is None:
        return None
    means, error = np.nanmean(losses, axis=-1), _error(noise, losses, chosen)
    return Selection(statistics.squared_regret_of_few(means, error, noise.df, chosen), noise.df)


def _failing(grid: _Grid, main: Mapping[Any, np.ndarray]) -> dict[Any, str]:
    """Describe by variant where one was chosen at which training begins to fail.

    Args:
        grid: Of one setting along one field.
        main: Losses of further runs of each variant at its choice.
    """
    rates = _logarithms(grid.values)
    if rates is None or not grid.chosen:
        return {}
    chosen, noises = list(grid.chosen.values()), [statistics.own_noise([main[key]]) for key in grid.chosen]
    variances = [noise.variance if noise.df else 0.0 for noise in noises]
    planned = grid.losses[..., : grid.num_planned]
    found = statistics.spreads(rates, planned, chosen, variances, [noise.df for noise in noises])
    return {
        key: f"{key[-1]} was chosen where training begins to fail: at {grid.field} {grid.values[place]} its "
        f"seeds spread by {found.at_choice[i]:.3f} nats (standard deviation), just below by "
        f"{found.below[i]:.3f}; a lower value may be as good and safer"
        for i, (key, place) in enumerate(grid.chosen.items())
        if found.is_failing[i]
    }


def failing_choices(tuning: Tuning, choices: Sequence[Choice]) -> list[str]:
    """Name those of some choices that were made where training begins to fail, by the tuning runs alone.

    Args:
        tuning: With the rounds of these choices.
        choices: Such as have just been made.
    """
    texts: list[str] = []
    for setting in dict.fromkeys((choice.family, choice.places) for choice in choices):
        in_setting = {(x.variant,): x for x in tuning.chosen if (x.family, x.places) == setting}
        for name in tuning.plan.fields:
            grid = _grid(tuning, in_setting, name)
            texts += _failing(grid, dict.fromkeys(grid.chosen, np.empty(0))).values()
    return texts


def shared_table(source: Source, seen: Source, benchmark: Benchmark, outcome: Outcome) -> ArmTable | None:
    """Return the held-out losses of the runs at the shared rates, by the names that the report gives.

    Args:
        source: The study.
        seen: The same by the factor of the report, with the same runs in the same order.
        benchmark: What the losses are called.
        outcome: What they are.
    """
    keys, losses = _report_keys(source, seen), dict[Key, dict[int, float]]()
    for run in source.stages.get(SHARED, ()):
        places = frozenset(place for place in run.places if place[0] in source.axes)
        key = keys.get((plain(run.family), places, run.variant))
        if key is not None and run.eval_loss is not None:
            losses.setdefault(key, {})[run.seed] = run.eval_loss
    arms = {key: pd.Series(arm).sort_index() for key, arm in losses.items()}
    return ArmTable(arms, benchmark, outcome=outcome) if arms else None
