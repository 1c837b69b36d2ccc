"""What a study's tuning chose, what its choices add to the uncertainty, and the runs at the shared rate.

A study's ``tuning.json`` has the losses of all tuning runs. Comparisons of the held-out loss, which the
tuning selects by, carry what the choices add (``report.statistics.tuning_curves``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from base.errors import UsageError
from report.inputs.sources import Source
from report.significance.arms import ArmTable, Key
from report.significance.axes import Benchmark, Family, Level, places_of, plain
from report.significance.factor import OF_HEADS
from report.statistics import tuning_curves as statistics
from report.statistics.tuning_curves import Curve, Curves, Noise, Selection
from scores.metrics import Metric
from scores.stages import SHARED, TUNE
from scores.suites import HELD_OUT
from scores.tuning_grid import Point, Value, is_number, is_positive
from scores.tuning_trials import Choice, Tuning, read_tuning

TUNED_BY = Benchmark(HELD_OUT)
"""What a study's tuning selects by."""


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
    """(R, T) held-out losses by value and tuning seed."""
    chosen: int
    """Place of the chosen value."""
    is_at_edge: bool
    noise: Noise | None
    """Of the variant's runs, moderated by those of its setting; None where nothing tells of it."""
    fitted: Curves | None
    """The curve about the chosen value; None of fewer than three numbers."""
    selection: Selection | None
    """What the choice adds to the variance of the arm's mean."""

    @property
    def may_lie_beyond(self) -> bool:
        """Whether the chosen value ends the grid, and the curve's lowest point is not before it."""
        if not self.is_at_edge or self.curve is None:
            return self.is_at_edge
        values = [float(value) for value in self.values]
        is_below = self.curve.optimum < values[self.chosen]
        return values[self.chosen] == (min(values) if is_below else max(values))

    @property
    def means(self) -> np.ndarray:
        """(R,) over all tuning seeds of each value."""
        return np.mean(self.losses, axis=-1)

    @property
    def rates(self) -> np.ndarray | None:
        """(R,) logarithms of the values; None of values that have none."""
        return _logarithms(self.values)

    @cached_property
    def curve(self) -> Curve | None:
        """Its lowest point, and what a threefold wrong value costs."""
        if self.fitted is None or self.rates is None:
            return None
        return statistics.curve(self.fitted, float(self.rates[self.chosen]))


def _logarithms(values: Sequence[Value]) -> np.ndarray | None:
    numbers = [float(value) for value in values if is_positive(value)]
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
        by_arm: dict[Key, list[Selection]] = {}
        for line in self.lines:
            if line.selection is not None:
                by_arm.setdefault((line.family, line.variant), []).append(line.selection)
        return {key: statistics.combined(fields, [1.0] * len(fields)) for key, fields in by_arm.items()}

    @cached_property
    def num_runs(self) -> dict[Key, int]:
        """Tuning runs of each variant in each setting."""
        return {
            key: sum(len(one.losses) for one in self.plan.tried_of(choice))
            for key, choice in self.chosen.items()
        }

    @property
    def shared_points(self) -> dict[Family, Point]:
        """What was best for the study's baseline, by setting; nothing where the study does not run it."""
        plan = self.plan.plan
        of_baseline = {key: x for key, x in self.chosen.items() if x.variant == plan.baseline and plan.shared}
        return {family: choice.point for (family, _), choice in of_baseline.items()}

    @property
    def notes(self) -> Iterator[str]:
        """Warnings of uncertainty that is in no interval."""
        few = [x for x in self.lines if x.rates is not None and len(x.rates) < statistics.FEWEST]
        unknown = [x for x in self.lines if x.noise is None]
        for lines, text in (
            (few, "fewer than three values were left to lay a curve through, so that what lies between and "
                  "beyond them is in no interval; tune with more values"),
            (unknown, "what the choice adds to the uncertainty is not known, as no value has two runs"),
        ):  # fmt: skip
            if lines:
                yield f"{', '.join(sorted({str(x.variant) for x in lines}))} ({lines[0].field}): {text}"


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
    if source.kind != "study folder" or seen.factor in OF_HEADS:
        return None
    tuning = read_tuning(source.path)
    if tuning is None and source.stages.get(TUNE):
        raise UsageError(
            f"{source.path}/tuning.json is gone, without which the luck of each choice is in no interval; "
            "restore it, or give the study's command again, which chooses anew from the tuning runs"
        )
    if tuning is None or not tuning.chosen:
        return None
    keys = _report_keys(source, seen)
    compared = {
        key: choice
        for choice in tuning.chosen_in_order
        if (key := keys.get((choice.family, frozenset(choice.places), choice.variant)))
    }
    losses = {(f, v): arm.to_numpy(float) for (f, v), arm in runs.groupby(["family", "variant"]).score}
    lines: list[Line] = []
    for setting in dict.fromkeys((x.family, x.places) for x in compared.values()):
        choices = {key: x for key, x in compared.items() if (x.family, x.places) == setting}
        noises = _noises(tuning, choices, losses)
        for name in tuning.plan.fields:
            lines += _lines(tuning, name, choices, noises)
    return Tuned(plan=tuning, chosen=compared, lines=tuple(lines))


def _report_keys(source: Source, seen: Source) -> dict[tuple[str, frozenset[tuple[str, str]], Level], Key]:
    """What a run's family, places and variant are to the report."""
    return {
        (plain(a.family), frozenset(places_of(a.family)), a.variant): (b.family, b.variant)
        for a, b in zip(source.facts, seen.facts, strict=True)
    }


def _along(tuning: Tuning, choice: Choice, name: str) -> dict[Value, list[float]]:
    """Losses by the values of a field, at the chosen ones of the others; not those where a run diverged."""
    losses = {
        one.point[name]: [float(loss) for loss in one.losses if loss is not None]
        for one in tuning.tried_of(choice)
        if {**one.point, name: None} == {**choice.point, name: None} and None not in one.losses
    }
    return losses if choice.point[name] in losses else {}


def _noises(
    tuning: Tuning, choices: Mapping[Key, Choice], main: Mapping[Key, np.ndarray]
) -> dict[Key, Noise | None]:
    """Return the spread over seeds at each variant's best point of one setting.

    At other points, the next higher rate above all, some seeds leave the unigram plateau late, which says
    nothing of the best one. A mean tells nothing of the spread of normal runs. But a choice by a curve leaves
    the lowest mean where runs spread far rather than where they hardly do, so the variance of tuning runs at
    the choice is 1 to 10% too small, and 19% beside a cliff.
    """
    noises = []
    for key, choice in choices.items():
        tried = [x for one in tuning.tried_of(choice) if one.point == choice.point for x in one.losses]
        noises.append(statistics.own_noise([[x for x in tried if x is not None], main.get(key, ())]))
    if not any(noise.df for noise in noises):
        return dict.fromkeys(choices)
    variances, df = statistics.moderated_noise(*zip(*noises, strict=True))
    return {key: Noise(float(v), float(of)) for key, v, of in zip(choices, variances, df, strict=True)}


def _lines(
    tuning: Tuning, name: str, choices: Mapping[Key, Choice], noises: Mapping[Key, Noise | None]
) -> Iterator[Line]:
    """Return the lines of one setting along one field."""
    by_variant = {key: losses for key, x in choices.items() if (losses := _along(tuning, x, name))}
    values = tuple(dict.fromkeys(value for losses in by_variant.values() for value in losses))
    values = tuple(sorted(values)) if all(map(is_number, values)) else values
    chosen = [values.index(choices[key].point[name]) for key in by_variant]
    table = _table(values, list(by_variant.values()))
    is_usable = np.all(np.isfinite(table), axis=-1)
    of_variants = [noises[key] for key in by_variant]
    curves = _curves(values, table, chosen, of_variants)
    for i, (key, noise) in enumerate(zip(by_variant, of_variants, strict=True)):
        usable = np.flatnonzero(is_usable[i])
        losses, place = table[i, usable], usable.tolist().index(chosen[i])
        yield Line(
            family=key[0],
            variant=key[1],
            choice=choices[key],
            field=name,
            values=tuple(values[x] for x in usable),
            losses=losses,
            chosen=place,
            is_at_edge=name in tuning.at_edge(choices[key]),
            noise=noise,
            fitted=curves.get(i),
            selection=_selection(curves[i]) if i in curves else _selection_of_few(noise, losses, place),
        )


def _table(values: Sequence[Value], by_variant: Sequence[Mapping[Value, Sequence[float]]]) -> np.ndarray:
    """(V, R, T) losses by variant, value and tuning seed; nan where a run diverged."""
    most = max((len(x) for losses in by_variant for x in losses.values()), default=0)
    table = np.full((len(by_variant), len(values), most), math.nan)
    for i, of_variant in enumerate(by_variant):
        for value, losses in of_variant.items():
            table[i, values.index(value), : len(losses)] = losses
    return table


def _curves(
    values: Sequence[Value], table: np.ndarray, chosen: Sequence[int], noises: Sequence[Noise | None]
) -> dict[int, Curves]:
    """Lay a curve through the losses of each variant that has rates enough, by its place."""
    rates, variants = _logarithms(values), [noise for noise in noises if noise]
    if rates is None or len(rates) < statistics.FEWEST or len(variants) < len(noises):
        return {}
    variances, df = zip(*variants, strict=True)
    fitted = statistics.fit_curves(rates, table, chosen, variances, df)
    return {i: fitted.of(i) for i in range(len(chosen)) if np.isfinite(fitted.low[i])}


def _selection(curves: Curves) -> Selection:
    return Selection(float(statistics.squared_regret(curves)), float(curves.df))


def _selection_of_few(noise: Noise | None, losses: np.ndarray, chosen: int) -> Selection | None:
    if noise is None:
        return None
    error = math.sqrt(noise.variance / losses.shape[-1])
    return Selection(statistics.squared_regret_of_few(losses.mean(-1), error, noise.df, chosen), noise.df)


def shared_table(source: Source, seen: Source, benchmark: Benchmark, metric: Metric) -> ArmTable | None:
    """Return the held-out losses of the runs at the shared rates, by the names that the report gives.

    Args:
        source: The study.
        seen: The same by the factor of the report, with the same runs in the same order.
        benchmark: What the losses are called.
        metric: What they are.
    """
    keys, losses = _report_keys(source, seen), dict[Key, dict[int, float]]()
    for run in source.stages.get(SHARED, ()):
        places = frozenset(place for place in run.places if place[0] in source.axes)
        key = keys.get((plain(run.family), places, run.variant))
        if key is not None and run.eval_loss is not None:
            losses.setdefault(key, {})[run.seed] = run.eval_loss
    arms = {key: pd.Series(arm).sort_index() for key, arm in losses.items()}
    return ArmTable(arms, benchmark, metric=metric) if arms else None
