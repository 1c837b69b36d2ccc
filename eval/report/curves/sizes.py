"""What a study over sizes says: differences at each, their trend, power laws.

Only of a study with the axis ``size``. What is averaged over are its settings at one size, such as families.
A place on the axis of sizes is the number of parameters of the baseline there, in the logarithm; of a loss it
is that of the model itself. Nothing of this is among the report's claims.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from eval.report.document.names import family_label
from eval.report.inputs.run_facts import RunFacts
from eval.significance.arms import ArmTable
from eval.significance.axes import SIZE, Axes, Benchmark, Family, Level, Setting, level_number, places_of
from eval.significance.comparison import Inference
from eval.significance.statistics.scaling_laws import (
    MIN_SIZES_FOR_FLOOR,
    Prediction,
    at_end,
    fit_power_law,
    law_interval,
    predict_largest,
)
from eval.significance.statistics.size_trends import SizeTrend, size_trend, trend_verdicts
from eval.significance.statistics.tuning import NO_CHOICE, Selection
from eval.significance.statistics.welch import Welch, welch
from eval.suites.registry import HELD_OUT

Ladder = Mapping[Family, Mapping[str, Family]]
"""What stands beside size, to each size, to the whole setting; sizes ascending."""
Parameters = Mapping[tuple[Family, Level], float]


@dataclass(frozen=True, kw_only=True)
class SizeDifference:
    """A variant minus the baseline at one size, averaged over settings; by itself, not corrected."""

    benchmark: Benchmark
    variant: Level
    size: str
    parameters: float
    """Of the baseline, geometric mean over settings."""
    fewest_runs: int
    estimate: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class SizeVerdict:
    """How a difference goes with size: a line in the logarithm of the baseline's parameters."""

    benchmark: Benchmark
    variant: Level
    verdict: str
    """shrinks, grows, changes sign, holds or cannot tell; corrected over the variants (Holm)."""
    sizes: tuple[str, ...]
    first: float
    """The line at the smallest size."""
    last: float
    change: float
    """Last minus first, with its interval, which is not corrected."""
    change_low: float | None
    change_high: float | None
    p_change: float | None
    p_direction: float
    """Before correction: of shrinking or growing; of changing sign; of holding within the margin."""
    p_sign: float
    p_holds: float | None
    p_bend: float | None
    """Whether the differences are on a line at all; None with two sizes."""
    margin: float | None


@dataclass(frozen=True, kw_only=True)
class SizeLaw:
    """L = E + A N^-alpha through the losses of one variant, and what the smaller sizes say of the largest."""

    family: Family
    """The setting, without its size."""
    variant: Level
    sizes: tuple[str, ...]
    parameters: tuple[float, ...]
    losses: tuple[float, ...]
    """Means over seeds."""
    half_widths: tuple[float, ...]
    """Of their t intervals; nan of a single run."""
    has_floor: bool
    """Whether E is fitted; with two sizes it is not, and is 0."""
    floor: float
    scale: float
    exponent: float
    floor_interval: tuple[float, float] | None
    """Student's; None where a size has one run."""
    exponent_interval: tuple[float, float] | None
    prediction: Prediction | None

    @property
    def is_falling(self) -> bool:
        """Whether the largest models end lower than the smallest."""
        return self.exponent > 0 and self.losses[-1] < self.losses[0]

    @property
    def rises_between(self) -> bool:
        """Whether a step in size adds more loss than both means are uncertain by; of single runs any."""
        widths = np.nan_to_num(self.half_widths)
        return bool((np.diff(self.losses) > np.hypot(widths[1:], widths[:-1])).any())

    @property
    def is_law(self) -> bool:
        """Whether the law describes the losses, with an exponent that is none of the ends of its search."""
        return self.is_falling and not self.rises_between and not at_end(self.exponent)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """All of it; empty without two sizes."""

    levels: tuple[str, ...] = ()
    differences: tuple[SizeDifference, ...] = ()
    verdicts: tuple[SizeVerdict, ...] = ()
    laws: tuple[SizeLaw, ...] = ()
    notes: tuple[str, ...] = ()
    """What is left out, and why."""


@dataclass(frozen=True)
class _Study:
    """What every part of the analysis looks at."""

    ladder: Ladder
    parameters: Parameters
    """Mean over the runs of an arm; of a table by the names of its sizes."""
    variants: Sequence[Level]
    inference: Inference

    def log_size(self, setting: Family) -> float:
        return float(np.log(self.parameters[setting, self.variants[0]]))


def analyse_sizes(
    tables: Mapping[Benchmark, ArmTable],
    facts: Sequence[RunFacts],
    axes: Axes,
    families: Sequence[Family],
    variants: Sequence[Level],
    inference: Inference,
) -> Sizes:
    """Compute what is said across sizes.

    Args:
        tables: The runs of every outcome.
        facts: What run folders tell; of a table none, and its sizes are then taken from their names.
        axes: Those of the study.
        families: Its settings, in order.
        variants: In order, the baseline first.
        inference: Level of intervals and tests.

    Returns:
        Nothing without two sizes; notes alone where the baseline has runs at fewer, or nobody says how large
        they are.
    """
    planned = _ladder(families) if len(axes.get(SIZE, ())) > 1 else {}
    parameters = _parameters(planned, facts, variants)
    ladder = _with_baseline(planned, parameters, variants[0])
    if not planned:
        return Sizes()
    notes = tuple(_left_out(planned, ladder, variants[0]))
    if not ladder:
        return Sizes(notes=notes)
    study = _Study(_ascending(ladder, parameters, variants[0]), parameters, variants, inference)
    held_out = tables.get(Benchmark(HELD_OUT))
    return Sizes(
        levels=tuple(dict.fromkeys(size for rungs in study.ladder.values() for size in rungs)),
        differences=tuple(x for table in tables.values() for x in _differences(table, study)),
        verdicts=tuple(x for table in tables.values() for x in _verdicts(table, study)),
        laws=tuple(_laws(held_out, study)) if held_out else (),
        notes=notes,
    )


def _with_baseline(planned: Ladder, parameters: Parameters, baseline: Level) -> Ladder:
    """Keep the sizes whose baseline is known, of settings that have two of them."""
    known = {
        rest: {size: setting for size, setting in rungs.items() if (setting, baseline) in parameters}
        for rest, rungs in planned.items()
    }
    return {rest: rungs for rest, rungs in known.items() if len(rungs) > 1}


def _left_out(planned: Ladder, ladder: Ladder, baseline: Level) -> Iterator[str]:
    """Say which sizes nothing is said of across sizes."""
    for rest, rungs in planned.items():
        lost = [size for size in rungs if size not in ladder.get(rest, {})]
        if lost:
            where = f" of {family_label(rest)}" if len(planned) > 1 else ""
            why = "no run of a known size there" if rest in ladder else "no two sizes with runs"
            yield f"{', '.join(lost)}{where}, as `{baseline}` has {why}"


def _ladder(families: Sequence[Family]) -> Ladder:
    found: dict[Family, dict[str, Family]] = {}
    for setting in families:
        size = dict(places_of(setting)).get(SIZE)
        if isinstance(setting, Setting) and size is not None:
            found.setdefault(_without_size(setting), {})[size] = setting
    return {rest: rungs for rest, rungs in found.items() if len(rungs) > 1}


def _ascending(ladder: Ladder, parameters: Parameters, baseline: Level) -> Ladder:
    return {
        rest: dict(sorted(rungs.items(), key=lambda rung: parameters[rung[1], baseline]))
        for rest, rungs in ladder.items()
    }


def _without_size(setting: Setting) -> Family:
    places = tuple(place for place in setting.places if place[0] != SIZE)
    return replace(setting, places=places, ranks=()) if places or setting.variant else setting.family


def _parameters(ladder: Ladder, facts: Sequence[RunFacts], variants: Sequence[Level]) -> Parameters:
    counts: dict[tuple[Family, Level], list[int]] = {}
    for run in facts:
        if run.num_parameters:
            counts.setdefault((run.family, run.variant), []).append(run.num_parameters)
    if counts:
        return {arm: float(np.mean(found)) for arm, found in counts.items()}
    by_name = {s: level_number(size) for rungs in ladder.values() for size, s in rungs.items()}
    return {(s, variant): size for s, size in by_name.items() if size for variant in variants}


def _choice(table: ArmTable, setting: Family, variant: Level) -> Selection:
    """What tuning adds to the variance of an arm's mean."""
    return table.choices.get((setting, variant), NO_CHOICE)


def _runs(table: ArmTable, setting: Family, variant: Level) -> np.ndarray:
    found = table.runs.get((setting, variant))
    return np.array([]) if found is None else found.to_numpy(dtype=float)


def _differences(table: ArmTable, study: _Study) -> Iterator[SizeDifference]:
    """Welch's difference at every size, over the settings that have both arms there."""
    sizes = list(dict.fromkeys(size for rungs in study.ladder.values() for size in rungs))
    for variant in study.variants[1:]:
        for size in sizes:
            settings = [rungs[size] for rungs in study.ladder.values() if size in rungs]
            pairs = {s: [_runs(table, s, name) for name in (variant, study.variants[0])] for s in settings}
            pairs = {s: arms for s, arms in pairs.items() if all(map(len, arms))}
            if not pairs:
                continue
            arms = [arm for both in pairs.values() for arm in both]
            weights = np.tile([1.0, -1.0], len(pairs)) / len(pairs)
            both = (variant, study.variants[0])
            choices = [_choice(table, s, name) for s in pairs for name in both]
            found = _welch(arms, weights, study.inference.confidence, choices)
            yield SizeDifference(
                benchmark=table.benchmark,
                variant=variant,
                size=size,
                parameters=float(np.exp(np.mean([study.log_size(s) for s in pairs]))),
                fewest_runs=min(map(len, arms)),
                estimate=float(found.estimate),
                low=_known(found.low),
                high=_known(found.high),
            )


def _welch(
    arms: Sequence[np.ndarray], weights: np.ndarray, confidence: float, choices: Sequence[Selection]
) -> Welch:
    """Welch's sum of means; without an interval where an arm has one run."""
    added, added_df = np.array(choices).T
    counts = np.array([len(arm) for arm in arms])
    variances = [arm.var(ddof=1) if len(arm) > 1 else np.nan for arm in arms]
    return welch([arm.mean() for arm in arms], variances, counts, weights, confidence, added, added_df)


def _verdicts(table: ArmTable, study: _Study) -> Iterator[SizeVerdict]:
    found = {
        variant: trend
        for variant in study.variants[1:]
        if (trend := _trend(table, study, variant)) is not None
    }
    if not found:
        return
    margin = table.outcome.margin
    together = _stacked([trend for _, trend in found.values()])
    verdicts = trend_verdicts(together, margin, study.inference.level)
    for (variant, (sizes, trend)), verdict in zip(found.items(), verdicts, strict=True):
        yield SizeVerdict(
            benchmark=table.benchmark,
            variant=variant,
            verdict=verdict,
            sizes=sizes,
            first=float(trend.first.estimate),
            last=float(trend.last.estimate),
            change=float(trend.change.estimate),
            change_low=_known(trend.change.low),
            change_high=_known(trend.change.high),
            p_change=_known(trend.change.p),
            p_direction=float(trend.p_direction),
            p_sign=float(trend.p_sign),
            p_holds=None if margin is None else float(trend.p_holds(margin)),
            p_bend=None if trend.bend is None else _known(trend.bend.p),
            margin=margin,
        )


def _trend(table: ArmTable, study: _Study, variant: Level) -> tuple[tuple[str, ...], SizeTrend] | None:
    """The line through the sizes at which every setting has two runs of both; None without two of them."""
    both = (variant, study.variants[0])
    usable = [
        {size: s for size, s in rungs.items() if all(len(_runs(table, s, name)) > 1 for name in both)}
        for rungs in study.ladder.values()
    ]
    usable = [rungs for rungs in usable if rungs]
    sizes = tuple(size for size in usable[0] if all(size in rungs for rungs in usable)) if usable else ()
    if len(sizes) < 2:
        return None
    arms = [[[_runs(table, rungs[size], name) for name in both] for size in sizes] for rungs in usable]
    moments = np.array([[[(x.mean(), x.var(ddof=1), len(x)) for x in y] for y in z] for z in arms])
    log_sizes = np.array([[study.log_size(rungs[size]) for size in sizes] for rungs in usable])
    if (np.ptp(log_sizes, axis=1) == 0).any():
        return None
    choices = np.array(
        [[[_choice(table, rungs[size], name) for name in both] for size in sizes] for rungs in usable]
    )
    means, variances, counts = np.moveaxis(moments, -1, 0)
    confidence = study.inference.confidence
    return sizes, size_trend(
        log_sizes, means, variances, counts, confidence, choices[..., 0], choices[..., 1]
    )


def _stacked(trends: Sequence[SizeTrend]) -> SizeTrend:
    """One trend with a place for each variant."""

    def stack(parts: Sequence[Welch]) -> Welch:
        return Welch(*(np.stack(values) for values in zip(*parts, strict=True)))

    ends = ("first", "last", "change", "middle")
    return SizeTrend(*(stack([getattr(trend, end) for trend in trends]) for end in ends), bend=None)


def _laws(table: ArmTable, study: _Study) -> Iterator[SizeLaw]:
    for rest, rungs in study.ladder.items():
        for variant in study.variants:
            known = {
                size: s
                for size, s in rungs.items()
                if len(_runs(table, s, variant)) and (s, variant) in study.parameters
            }
            of_variant = {size: study.parameters[s, variant] for size, s in known.items()}
            if len(set(of_variant.values())) == len(known) > 1:
                ascending = sorted(known, key=of_variant.__getitem__)
                yield _law(table, study, rest, variant, {size: known[size] for size in ascending})


def _law(
    table: ArmTable, study: _Study, rest: Family, variant: Level, rungs: Mapping[str, Family]
) -> SizeLaw:
    parameters = [study.parameters[s, variant] for s in rungs.values()]
    losses = [_runs(table, s, variant) for s in rungs.values()]
    has_floor, confidence = len(parameters) >= MIN_SIZES_FOR_FLOOR, study.inference.confidence
    law = fit_power_law(parameters, [x.mean() for x in losses], has_floor)
    floor, exponent = (
        law_interval(parameters, losses, attrgetter(name), confidence, has_floor)
        for name in ("floor", "exponent")
    )
    means = [_welch([x], np.ones(1), confidence, [NO_CHOICE]) for x in losses]
    return SizeLaw(
        family=rest,
        variant=variant,
        sizes=tuple(rungs),
        parameters=tuple(parameters),
        losses=tuple(float(x.estimate) for x in means),
        half_widths=tuple(float(x.high - x.estimate) for x in means),
        has_floor=has_floor,
        floor=float(law.floor),
        scale=float(law.scale),
        exponent=float(law.exponent),
        floor_interval=(max(floor[0], 0.0), floor[1]) if floor and has_floor else None,
        exponent_interval=exponent,
        prediction=predict_largest(parameters, losses, confidence),
    )


def _known(value: np.ndarray) -> float | None:
    return None if np.isnan(value) else float(value)
