"""What a tuned study's tuning found, what its choices add to the uncertainty, and the shared rate beside.

A study's ``tuning.json`` has the losses of all tuning runs. Comparisons of the held-out loss, which the
tuning selects by, carry what the choices add (``eval.significance.statistics.tuning``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from base.errors import UsageError
from base.wording import first_few
from eval.report.inputs.sources import Source
from eval.results.chosen import chosen_settings
from eval.results.outcome import Outcome
from eval.results.rows import NO_HEAD
from eval.results.stages import SHARED, TUNE
from eval.results.store import read_ledger
from eval.results.tuning import Choice, Round, Tuning, missing_tuning, read_tuning
from eval.results.tuning_rules import Point, Value, edges, is_number
from eval.significance.arms import ArmTable, Key
from eval.significance.axes import Benchmark, Family, Level, places_of, plain
from eval.significance.statistics.tuning import (
    FEWEST,
    Curve,
    Curves,
    Estimate,
    Noise,
    Selection,
    choice_share,
    combined,
    curve,
    expected_best,
    fit_curves,
    moderated_noise,
    own_noise,
    spreads,
    squared_regret,
    squared_regret_of_few,
)
from eval.suites.registry import HELD_OUT
from pretrain.run.folders import RunFolder

TUNED_BY = Benchmark(HELD_OUT)
"""What a study's tuning selects by."""
MORE_SEEDS = 2
"""Further tuning seeds of which the report says what they would be worth."""


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
    noise: Noise | None
    """Of the variant's runs, moderated by those of its setting; None where nothing tells of it."""
    fitted: Curves | None = None
    """The curve about the chosen value; None of fewer than three numbers."""
    with_more: Curves | None = None
    """The same as if the values of the curve had ``MORE_SEEDS`` further tuning seeds."""
    of_curve: tuple[Value, ...] = ()
    """Values that the curve goes through."""

    @property
    def means(self) -> np.ndarray:
        """(R,) over all tuning seeds of each value."""
        return np.nanmean(self.losses, axis=-1)

    @cached_property
    def rates(self) -> np.ndarray | None:
        """(R,) logarithms of the values; None of values that have none."""
        return _logarithms(self.values)

    @cached_property
    def _error(self) -> float:
        assert self.noise is not None
        return math.sqrt(self.noise.variance / np.isfinite(self.losses[self.chosen]).sum())

    @cached_property
    def selection(self) -> Selection | None:
        """What the choice adds to the variance of the arm's mean."""
        if self.noise is None:
            return None
        if self.fitted is not None and self.rates is not None:
            return _selection(self.fitted)
        added = squared_regret_of_few(self.means, self._error, self.noise.df, self.chosen)
        return Selection(added, self.noise.df)

    @cached_property
    def selection_with_more(self) -> Selection | None:
        """What it would add after ``MORE_SEEDS`` further tuning seeds with the same means."""
        return None if self.with_more is None else _selection(self.with_more)

    @cached_property
    def share(self) -> float | None:
        """How often the chosen value would be chosen with other tuning seeds."""
        if self.noise is None:
            return None
        if self.fitted is None:
            return choice_share(self.means, self._error, self.chosen)
        is_known = np.isfinite(self.fitted.means)
        return choice_share(self.means, self.fitted.errors[is_known], self.chosen)

    @cached_property
    def curve(self) -> Curve | None:
        """Of three numbers or more."""
        if self.fitted is None or self.rates is None:
            return None
        return curve(self.fitted, float(self.rates[self.chosen]))


def _selection(fitted: Curves) -> Selection:
    return Selection(float(squared_regret(fitted)), float(fitted.df))


def _logarithms(values: Sequence[Value]) -> np.ndarray | None:
    numbers = [float(value) for value in values if is_number(value) and float(value) > 0]
    return np.log(numbers) if len(numbers) == len(values) else None


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What was tuned, for one kind of variants."""

    plan: Tuning
    lines: tuple[Line, ...]
    """Of every setting, in the order of the plan, and there of every variant."""
    best_of: Mapping[Key, np.ndarray]
    """(N,) the expected best of so many points that were tried."""
    num_runs: Mapping[Key, int]
    """Tuning runs of each variant in each setting."""
    num_rounds: Mapping[Key, int]
    num_further: Mapping[Key, int]
    """Runs that were added about each variant's choice."""
    shared_points: Mapping[Family, Point]
    """What was best for the baseline, by setting."""
    points: Mapping[Key, Point]
    """What was best for each variant."""
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def choices(self) -> dict[Key, Selection]:
        """What tuning adds to the variance of each arm's mean; what fields miss adds up."""
        return self.choices_after()

    def choices_after(self, variant: Level = "", name: str = "") -> dict[Key, Selection]:
        """Return the same as if a variant had ``MORE_SEEDS`` further tuning seeds along a field."""
        found: dict[Key, list[Selection]] = {}
        for line in self.lines:
            is_tuned_further = (line.variant, line.field) == (variant, name)
            selection = (is_tuned_further and line.selection_with_more) or line.selection
            if selection is not None:
                found.setdefault((line.family, line.variant), []).append(selection)
        return {key: combined(fields, [1.0] * len(fields)) for key, fields in found.items()}

    @property
    def at_edge(self) -> set[Key]:
        """Variants of which a better value may lie beyond what was tried."""
        return {(line.family, line.variant) for line in self.lines if line.is_at_edge}


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
    keys = {
        (plain(a.family), frozenset(places_of(a.family)), a.variant): (b.family, b.variant)
        for a, b in zip(source.facts, seen.facts, strict=True)
    }
    return _tuned(tuning, keys, runs)


Keys = Mapping[tuple[str, frozenset[tuple[str, str]], Level], Key]
"""What tuning calls a variant in a setting, to what the report calls it."""


def _tuned(tuning: Tuning, keys: Keys, runs: pd.DataFrame) -> Tuned | None:
    known = {
        key: choice
        for choice in tuning.chosen_in_order
        if (key := keys.get((choice.family, frozenset(choice.places), choice.variant)))
    }
    tables = {key: _losses(tuning, choice) for key, choice in known.items()}
    settings = {key: (choice.family, choice.places) for key, choice in known.items()}
    lines: list[Line] = []
    failing: list[str] = []
    for setting in dict.fromkeys(settings.values()):
        own = {key: known[key] for key, of in settings.items() if of == setting}
        noises = _noises(own, tables, tuning, runs)
        for name in tuning.plan.fields:
            grid = _grid(name, own, tables, tuning)
            lines += _lines(grid, own, tables, noises)
            failing += _failing(grid, [_main_runs(runs, key) for key in grid.chosen])
    shared = {
        key[0]: choice.point
        for key, choice in known.items()
        if choice.variant == tuning.plan.baseline and tuning.plan.shared
    }
    return Tuned(
        plan=tuning,
        lines=tuple(lines),
        best_of={key: expected_best([_mean(x) for x in table.values()]) for key, table in tables.items()},
        num_runs={key: _num_runs(tuning, choice) for key, choice in known.items()},
        num_rounds={key: len(_rounds(tuning, choice)) for key, choice in known.items()},
        num_further={key: _num_further(tuning, choice) for key, choice in known.items()},
        shared_points=shared,
        points={key: choice.point for key, choice in known.items()},
        notes=(*_notes(tuning, lines), *failing, *_of_further(tuning)),
    )


PointKey = tuple[Value, ...]
Losses = Mapping[PointKey, tuple[float | None, ...]]
"""By the values of a point, in the order of the plan's fields."""


def _rounds(tuning: Tuning, choice: Choice) -> list[Round]:
    own = choice.family, choice.places
    return [x for x in tuning.rounds if (x.family, x.places) == own and choice.variant in x.variants]


def _num_runs(tuning: Tuning, choice: Choice) -> int:
    tried = (one for each in _rounds(tuning, choice) for one in each.tried if one.variant == choice.variant)
    return sum(len(one.losses) for one in tried)


def _losses(tuning: Tuning, choice: Choice) -> Losses:
    """Losses at every point that was tried."""
    return {
        tuple(one.point.values()): one.losses
        for each in reversed(_rounds(tuning, choice))
        for one in each.tried
        if one.variant == choice.variant
    }


def _num_further(tuning: Tuning, choice: Choice) -> int:
    return sum(len(values) for each in tuning.further_of(choice) for values in each.losses)


def _further(tuning: Tuning, choice: Choice, name: str) -> dict[Value, list[float]]:
    """Losses that were added along a field, by its values, nan where a value was not run at a seed.

    A seed at which a run diverged is left out: without one of its values the curve would go through fewer.
    """
    added = [each for each in tuning.further_of(choice) if each.field == name and each.losses]
    found: dict[Value, list[float]] = {value: [] for each in added for value in each.values}
    for each in added:
        table = np.array(each.losses, dtype=float)
        by_value, has_ended = dict(zip(each.values, table, strict=True)), np.isfinite(table).all(0)
        nothing = np.full(len(each.seeds), math.nan)
        for value, losses in found.items():
            losses += by_value.get(value, nothing)[has_ended].tolist()
    return found


def _mean(losses: Sequence[float | None]) -> float:
    known = [x for x in losses if x is not None]
    return math.fsum(known) / len(known) if len(known) == len(losses) else math.inf


def _noises(
    own: Mapping[Key, Choice], tables: Mapping[Key, Losses], tuning: Tuning, runs: pd.DataFrame
) -> dict[Key, Noise | None]:
    """Return the spread over seeds at each variant's best point of one setting.

    Runs are those that all variants were meant to have: what was decided with them must not change with the
    runs that others get later. At other points, the next higher rate above all, some seeds leave the plateau
    of word frequencies late, which says nothing of the best one. That a point is chosen by its mean does not
    make the spread there smaller than it is: of normal runs the two are independent.
    """
    found = []
    for key, choice in own.items():
        added = [_further(tuning, choice, name).get(value, []) for name, value in choice.point.items()]
        of_tuning = [*_known(tables[key][tuple(choice.point.values())]), *itertools.chain(*added)]
        found.append(own_noise([of_tuning, _main_runs(runs, key)]))
    if not any(noise.df for noise in found):
        return dict.fromkeys(own)
    variances, df = moderated_noise(*zip(*found, strict=True))
    return {key: Noise(float(v), float(of)) for key, v, of in zip(own, variances, df, strict=True)}


def _known(losses: Sequence[float | None]) -> list[float]:
    return [x for x in losses if x is not None]


def _main_runs(runs: pd.DataFrame, key: Key) -> np.ndarray:
    family, variant = key
    return runs[(runs.family == family) & (runs.variant == variant)].score.to_numpy(float)


@dataclass(frozen=True, kw_only=True)
class _Grid:
    """What the variants of one setting came to along one field, each at its chosen values of the others."""

    field: str
    values: tuple[Value, ...]
    """All that are usable for any, in rising order."""
    chosen: dict[Any, int]
    """Places of the chosen values, by whatever names a variant."""
    losses: np.ndarray
    """(V, R, T) at the planned seeds, nan where a run diverged."""
    further: np.ndarray
    """(V, R, F) at further seeds, nan where there is no run."""

    @property
    def all_losses(self) -> np.ndarray:
        """(V, R, T + F)."""
        return np.concatenate([self.losses, self.further], axis=-1)

    def of(self, key: Any) -> tuple[tuple[Value, ...], np.ndarray, int]:
        """Return the usable values of a variant, its losses (R, T) there, and the place of the chosen one."""
        place = list(self.chosen).index(key)
        usable = np.isfinite(self.losses[place]).all(-1)
        values = tuple(value for value, is_usable in zip(self.values, usable, strict=True) if is_usable)
        losses = self.all_losses[place][usable]
        return values, losses[:, np.isfinite(losses).any(0)], int(usable[: self.chosen[key]].sum())


def _grid(name: str, own: Mapping[Any, Choice], tables: Mapping[Any, Losses], tuning: Tuning) -> _Grid:
    along = {key: _along(name, choice, tables[key]) for key, choice in own.items()}
    along = {key: found for key, found in along.items() if own[key].point[name] in found}
    values = tuple(dict.fromkeys(value for found in along.values() for value in found))
    values = tuple(sorted(values)) if all(map(is_number, values)) else values  # type: ignore[type-var]
    seeds = max((len(losses) for found in along.values() for losses in found.values()), default=1)
    nothing = (math.nan,) * seeds
    losses = [[found.get(value, nothing) for value in values] for found in along.values()]
    added = [_further(tuning, own[key], name) for key in along]
    most = max((len(x) for found in added for x in found.values()), default=0)
    further = np.full((len(along), len(values), most), math.nan)
    for i, found in enumerate(added):
        for value, of_value in found.items():
            further[i, values.index(value), : len(of_value)] = of_value
    return _Grid(
        field=name,
        values=values,
        chosen={key: values.index(own[key].point[name]) for key in along},
        losses=np.array(losses, dtype=float).reshape(len(along), len(values), seeds),
        further=further,
    )


def _along(name: str, choice: Choice, table: Losses) -> dict[Value, tuple[float | None, ...]]:
    """Losses by the values of a field at the chosen ones of the others, but for those where runs diverged."""
    place = list(choice.point).index(name)
    best = tuple(choice.point.values())
    return {
        point[place]: losses
        for point, losses in table.items()
        if all(x == y for i, (x, y) in enumerate(zip(point, best, strict=True)) if i != place)
        and None not in losses
    }


def _lines(
    grid: _Grid, own: Mapping[Key, Choice], tables: Mapping[Key, Losses], noises: Mapping[Key, Noise | None]
) -> Iterable[Line]:
    """Return the lines of one setting along one field."""
    now, later = _curves(grid, noises), _curves(grid, noises, MORE_SEEDS)
    for key in grid.chosen:
        values, losses, chosen = grid.of(key)
        yield Line(
            family=key[0],
            variant=key[1],
            choice=own[key],
            field=grid.field,
            values=values,
            losses=losses,
            chosen=chosen,
            is_at_edge=grid.field in edges(own[key].point, _means(own[key], tables[key])),
            noise=noises[key],
            fitted=now.get(key),
            with_more=later.get(key),
            of_curve=_of_curve(grid, now.get(key)),
        )


def _of_curve(grid: _Grid, fitted: Curves | None) -> tuple[Value, ...]:
    if fitted is None:
        return ()
    return tuple(grid.values[place] for place in np.flatnonzero(fitted.fit.any(axis=0)))


def _curves(grid: _Grid, noises: Mapping[Key, Noise | None], more: int = 0) -> dict[Key, Curves]:
    """Lay a curve through the losses of each variant that has rates enough."""
    rates, noise = _logarithms(grid.values), [noises[key] for key in grid.chosen]
    if rates is None or len(rates) < FEWEST or None in noise:
        return {}
    variances, df = zip(*(each for each in noise if each), strict=True)
    found = fit_curves(rates, grid.all_losses, list(grid.chosen.values()), variances, df, more)
    return {key: found.of(i) for i, key in enumerate(grid.chosen) if np.isfinite(found.low[i])}


def _failing(grid: _Grid, main: Sequence[Sequence[float] | np.ndarray]) -> Iterable[str]:
    """Name the variants that were chosen where training begins to fail.

    Args:
        grid: Of one setting along one field.
        main: Losses of further runs of each variant at its choice.
    """
    rates = _logarithms(grid.values)
    if rates is None or not grid.chosen:
        return
    further = [own_noise([each]) for each in main]
    chosen = list(grid.chosen.values())
    variances = [noise.variance if noise.df else 0.0 for noise in further]
    found = spreads(rates, grid.losses, chosen, variances, [noise.df for noise in further])
    for i in np.flatnonzero(found.is_failing):
        name = list(grid.chosen)[i][-1]
        yield (
            f"{name} was chosen where training begins to fail: at {grid.field} {grid.values[chosen[i]]} its "
            f"seeds spread by {found.at_choice[i]:.3f} nats (standard deviation), just below by "
            f"{found.below[i]:.3f}; a lower value may be as good and safer"
        )


def failing_choices(tuning: Tuning, choices: Sequence[Choice]) -> list[str]:
    """Name those of some choices that were made where training begins to fail, by the tuning runs alone.

    Args:
        tuning: With the rounds of these choices.
        choices: Such as have just been made.
    """
    settings = dict.fromkeys((choice.family, choice.places) for choice in choices)
    lines: list[str] = []
    for setting in settings:
        own = {(x.family, x.places, x.variant): x for x in tuning.chosen if (x.family, x.places) == setting}
        tables = {key: _losses(tuning, choice) for key, choice in own.items()}
        for name in tuning.plan.fields:
            grid = _grid(name, own, tables, tuning)
            lines += _failing(grid, [()] * len(grid.chosen))
    return lines


def _means(choice: Choice, table: Losses) -> list[tuple[Point, float]]:
    return [(dict(zip(choice.point, point, strict=True)), _mean(losses)) for point, losses in table.items()]


def _notes(tuning: Tuning, lines: Sequence[Line]) -> Iterable[str]:
    edges = [line for line in lines if line.is_at_edge]
    if edges:
        named = first_few([f"{line.variant} ({line.field} {line.values[line.chosen]})" for line in edges], 4)
        yield (
            "the best value found lies at the edge of what was tried without a divergence: "
            f"{named}; a better one may lie beyond, which no interval here holds; tune further "
            "(`tune: widen`)"
        )
    few = {str(line.variant): line for line in lines if line.rates is not None and len(line.rates) < 3}
    if few:
        yield (
            f"fewer than three values of {next(iter(few.values())).field} were left to lay a curve through, "
            "so that what lies between and beyond them is in no interval: "
            f"{', '.join(sorted(few))}; tune with more values"
        )
    unknown = {str(line.variant) for line in lines if line.noise is None}
    if unknown:
        yield (
            "what the choice of a rate adds to the uncertainty is not known, as no rate has two runs: "
            f"{', '.join(sorted(unknown))}"
        )


def _of_further(tuning: Tuning) -> Iterable[str]:
    """Say which runs that were added to the tuning diverged, and that others have not ended."""
    for each in tuning.further:
        named = f"{each.variant}, {each.field}"
        if not each.losses:
            yield (
                f"tuning runs that were added have not all ended ({named}); the study's command goes on with "
                "them"
            )
        for value, losses in zip(each.values, each.losses, strict=bool(each.losses)):
            if number := sum(loss is None for loss in losses):
                yield (
                    f"{number} of {len(losses)} tuning runs that were added at {named} {value} diverged; "
                    "seeds at which one did are left out"
                )


def shared_table(source: Source, seen: Source, benchmark: Benchmark, outcome: Outcome) -> ArmTable | None:
    """Return the held-out losses of the runs at the shared rates, by the names that the report gives.

    Args:
        source: The study.
        seen: The same by the factor of the report, with the same runs in the same order.
        benchmark: What the losses are called.
        outcome: What they are.
    """
    keys = {
        (plain(a.family), places_of(a.family), a.variant): (b.family, b.variant)
        for a, b in zip(source.facts, seen.facts, strict=True)
    }
    found: dict[Key, dict[int, float]] = {}
    for run in source.stages.get(SHARED, ()):
        places = tuple((axis, level) for axis in source.axes for a, level in run.places if a == axis)
        key = keys.get((plain(run.family), places, run.variant))
        if key is not None and run.eval_loss is not None:
            found.setdefault(key, {})[run.seed] = run.eval_loss
    runs = {key: pd.Series(arm).sort_index() for key, arm in found.items()}
    return ArmTable(runs, benchmark, outcome=outcome) if runs else None


def tuning_tables(tuned: Tuned | None) -> dict[str, pd.DataFrame]:
    """Return every number of a tuning as tables by name, each row a record; none where nothing was tuned."""
    if tuned is None:
        return {}
    best = [
        {"family": family, "variant": variant, "num_points": number, "expected_best_loss": loss}
        for (family, variant), losses in tuned.best_of.items()
        for number, loss in enumerate(losses, start=1)
        if math.isfinite(loss)
    ]
    return {
        "tuning": pd.DataFrame(_record(line, tuned) for line in tuned.lines),
        "tuning_losses": pd.DataFrame(row for line in tuned.lines for row in _loss_records(line, tuned)),
        "expected_best": pd.DataFrame(best),
    }


def _record(line: Line, tuned: Tuned) -> dict[str, object]:
    """Losses and costs are in nats per target token, optima in the unit of the field."""
    key, found = (line.family, line.variant), line.curve
    own: dict[str, object] = {
        "family": line.family,
        "variant": line.variant,
        "field": line.field,
        "chosen": str(line.values[line.chosen]),
        "is_at_edge": line.is_at_edge,
        "num_runs": tuned.num_runs[key],
        "num_rounds": tuned.num_rounds[key],
        "chosen_again": line.share,
        "choice_error": None if line.selection is None else math.sqrt(line.selection.variance),
    }
    parts: dict[str, Estimate | None] = {
        "optimum": found.optimum.exp if found else None,
        "loss_at_optimum": found.loss if found else None,
        "cost_of_a_third": found.lower if found else None,
        "cost_of_threefold": found.higher if found else None,
    }
    for name, known in parts.items():
        own[name] = known.value if known else None
        own[f"{name}_low"], own[f"{name}_high"] = (known.interval if known else None) or (None, None)
    return own


def _loss_records(line: Line, tuned: Tuned) -> Iterable[dict[str, object]]:
    named = {"family": line.family, "variant": line.variant, "field": line.field}
    added = [each for each in tuned.plan.further_of(line.choice) if each.field == line.field and each.losses]
    for value, losses in zip(line.values, line.losses, strict=True):
        for seed, loss in zip(tuned.plan.plan.seeds, losses, strict=False):
            yield {**named, "value": str(value), "seed": seed, "loss": float(loss)}
        for each in added:
            of_value = dict(zip(each.values, each.losses, strict=True)).get(value, ())
            for seed, further in zip(each.seeds, of_value, strict=False):
                if further is not None:
                    yield {**named, "value": str(value), "seed": seed, "loss": further}


TRIED = ("head_learning_rates", "init_scales")
"""Settings of which each value is a candidate (``eval.classification.config.Finetuning``)."""


@dataclass(frozen=True, kw_only=True)
class HeadTrials:
    """One head of a study."""

    head: str
    num_trials: tuple[int, ...]
    """Fine-tunings of which the best was kept, for each run, task and seed; several where they differ."""
    chosen: Mapping[str, int]
    """What was kept to how often, over runs, tasks and seeds; empty where the items do not tell."""


def head_trials(source: Source) -> tuple[HeadTrials, ...]:
    """Read from ledgers and items how the heads of a study were tuned; nothing where none was.

    Args:
        source: A study, as it was read.
    """
    rows = source.rows[source.rows["head"] != NO_HEAD]
    if source.kind != "study folder" or rows.empty:
        return ()
    runs = {run_id: RunFolder(source.path / run_id) for run_id in rows["run_id"].unique()}
    trials: dict[str, set[int]] = {}
    for run in runs.values():
        ledger = read_ledger(run)
        for protocol in (ledger.tasks if ledger else {}).values():
            if isinstance(head := protocol.get("head"), str):
                trials.setdefault(head, set()).add(_num_trials(protocol))
    if max((most for counts in trials.values() for most in counts), default=1) == 1:
        return ()
    asked = {runs[run_id].path: own for run_id, own in rows.groupby("run_id")}
    counts = chosen_settings(asked)
    return tuple(
        HeadTrials(
            head=head,
            num_trials=tuple(sorted(trials.get(head, ()))),
            chosen=counts[counts["head"] == head].groupby("chosen", sort=False)["times"].sum().to_dict(),
        )
        for head in _in_order(rows["head"], source.design.heads)
    )


def _num_trials(protocol: Mapping[str, Any]) -> int:
    """Every learning rate with every scale; a setting without candidates has one value."""
    number = 1
    for name in TRIED:
        values = protocol.get(name)
        number *= max(1, len(values)) if isinstance(values, list) else 1
    return number


def _in_order(present: Iterable[str], wanted: Iterable[str]) -> list[str]:
    known = dict.fromkeys(present)
    return [*(head for head in wanted if head in known), *(head for head in known if head not in set(wanted))]
