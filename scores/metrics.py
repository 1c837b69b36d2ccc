"""Metrics: what is compared, one number a run, with everything that a reader must know of it.

A suite's spec says what its metrics are. Of any other name a table or a flag says it (``Declared``), else the
name itself where it is that of a known metric. A name that looks like a loss is never taken for a percentage.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, TypeVar

from base.errors import UsageError
from scores.column_words import column_words
from scores.rows import NO_METRIC
from scores.suites import (
    HELD_OUT,
    PERCENTAGES,
    SUITES,
    USUAL_MARGINS,
    Better,
    MetricSpec,
    Unit,
    is_graded,
    is_percentage,
    known_metric,
    suite_metric,
)

Value = TypeVar("Value")
LOSS_UNITS: tuple[Unit | None, ...] = ("nats", "bits per byte", "ratio")
Name = str | tuple[str, str]
"""What something is said of: a benchmark, a metric, or a metric of one benchmark."""


_LOSSES, _GAINS, _SPREADS = map(column_words, ("loss", "gain", "spread"))
_MAYBE_LOSSES, _TURNED = map(column_words, ("maybe a loss", "turned"))
_COSTS, _BESIDE, _TRAINING = map(column_words, ("cost of answers", "beside scores", "training"))
_SETTINGS = re.compile(r"(^|_)num_|_(steps?|epochs?|tokens|stride|scale|spikes|weight)$")
"""A name with a metric's word that is of a run's course or settings, as ``best_val_loss_step``."""
_ARROWS: Mapping[Better, tuple[str, ...]] = {
    "lower": ("\u2193", "lower is better"),
    "higher": ("\u2191", "higher is better"),
}
"""How a name itself says its direction."""
_NO_NAMES = (NO_METRIC, "value", "mean", "result")
"""What a metric is called where nobody names it."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric of a run.

    Attributes:
        name: As a reader sees it.
        better: Which scores are better.
        unit: Of the scores; None where nobody said.
        chance: What guessing scores, in the unit; None where that is not known.
        margin: The largest difference that is negligible, in the unit; None where there is none, and then
            nothing is called equivalent.
        is_default_margin: Whether it is that of its unit, as nobody named one.
        is_relative: Whether families may differ in scale, as losses of different objectives do, so that what
            is averaged over them are ratios. Every score then has one sign.
        metrics: Those that stand for its tasks.
        is_by_name: Whether its name alone says which scores are better.
        is_assumed: Whether nothing does, and scores are taken as those of a benchmark.
    """

    name: str
    better: Better = "higher"
    unit: Unit | None = "percent"
    chance: float | None = None
    margin: float | None = None
    is_default_margin: bool = field(default=False, compare=False)
    is_relative: bool = False
    metrics: tuple[str, ...] = field(default=(), compare=False)
    is_by_name: bool = field(default=False, compare=False)
    is_assumed: bool = field(default=False, compare=False)

    @property
    def is_percentage(self) -> bool:
        """Whether scores are percentages; correlations count as such."""
        return self.unit in PERCENTAGES

    @property
    def sign(self) -> int:
        """1 where higher is better, else -1."""
        return 1 if self.better == "higher" else -1


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What users said of metrics, by their label, benchmark or name.

    A table says it of a metric of one benchmark, the pair of both.
    """

    lower_is_better: Mapping[Any, bool] = field(default_factory=dict)
    units: Mapping[Any, Unit] = field(default_factory=dict)
    chances: Mapping[Any, float] = field(default_factory=dict)
    margins: Mapping[str, float] = field(default_factory=dict)
    margin: float | None = None
    """In percentage points, of every metric in percent that has none of its own."""

    def over(self, other: Declared) -> Declared:
        """Return both, this one going before the other."""
        names = ("lower_is_better", "units", "chances", "margins")
        both = {name: {**getattr(other, name), **getattr(self, name)} for name in names}
        return Declared(**both, margin=other.margin if self.margin is None else self.margin)


def find_metric(
    benchmark: str,
    metrics: Iterable[str],
    scores: Iterable[float],
    declared: Declared,
    label: str | None = None,
) -> Metric:
    """Say what the scores of one benchmark are.

    Args:
        benchmark: Its name.
        metrics: Those that stand for its tasks.
        scores: All of them, which say whether ratios can be taken.
        declared: What users said.
        label: The metric's name; None takes the benchmark's.

    Raises:
        UsageError: For scores of which nobody said which are better, or of several directions or units.
    """
    label = label or benchmark
    scores = list(scores)
    # A few that cannot be percentages are mistakes, which the report names. Between 1, where fractions end,
    # and 10 lie losses rather than percentages.
    middle = median(scores) if scores else 0
    default_unit: Unit | None = "percent" if 0 <= middle <= 1 or 10 <= middle <= 100 else None
    specs = {
        metric: _spec(benchmark, metric, label, declared, default_unit) for metric in sorted(set(metrics))
    }
    _refuse_mixtures(label, specs)
    spec = next(iter(specs.values()))
    is_graded_one = any(is_graded(benchmark, metric) for metric in specs)
    names = tuple(dict.fromkeys(name for metric in specs for name in _names(benchmark, metric, label)))
    unit: Unit | None = "percent" if is_percentage(spec) and len(specs) > 1 else spec.unit
    chance = _first_of(declared.chances, names, spec.chance if len(specs) == 1 else None)
    of_all = declared.margin if spec.margin is None and unit in PERCENTAGES else None
    named = _first_of(declared.margins, names, of_all)
    margin = spec.margin if named is None else named
    default = USUAL_MARGINS.get(unit) if unit and margin is None else None
    if named is not None:
        _refuse_margin(label, named, unit, scores)
    is_loss = unit in LOSS_UNITS or (unit is None and any(map(looks_like_a_loss, (label, benchmark, *specs))))
    is_declared = (
        benchmark in SUITES or benchmark == HELD_OUT or _first_of(declared.lower_is_better, names) is not None
    )
    return Metric(
        name=label,
        better=spec.better or "higher",
        unit=unit,
        chance=chance,
        margin=default if margin is None else margin,
        is_default_margin=default is not None,
        is_relative=is_loss and not is_graded_one and _have_one_sign(scores),
        metrics=tuple(specs),
        is_by_name=not is_declared,
        is_assumed=(not is_declared and label in _NO_NAMES)
        or any(find_direction(benchmark, metric, declared, label) is None for metric in specs),
    )


def _first_of(
    values: Mapping[Any, Value], names: Iterable[Name], default: Value | None = None
) -> Value | None:
    """Return the value of the first of the names that has one."""
    return next((values[name] for name in names if name in values), default)


def _names(benchmark: str, metric: str, label: str) -> tuple[Name, ...]:
    """Under what names something may be said of a metric where it stands.

    What is said of a suite is about its own metric and no graded one: a margin of 1 point is no nat.
    """
    of_all = (label,) if is_graded(benchmark, metric) else (label, benchmark)
    return (*of_all, metric, (benchmark, metric))


def find_direction(
    benchmark: str, metric: str, declared: Declared, label: str | None = None
) -> Better | None:
    """Say which scores of a metric are better; None where nobody says it.

    Args:
        benchmark: Where the metric stands.
        metric: Its name.
        declared: What users said, which goes before what is known of names.
        label: What the metric stands for, of which something may be said, too; None for a metric
            that stands beside it.
    """
    names = _names(benchmark, metric, label) if label else (metric, (benchmark, metric))
    is_lower = _first_of(declared.lower_is_better, names)
    if is_lower is not None:
        return "lower" if is_lower else "higher"
    if spec := suite_metric(benchmark, metric):
        return spec.better
    if not _is_unnamed(benchmark, metric):
        return _direction_of_name(metric)
    if benchmark in SUITES and (of_suite := _of_benchmark(benchmark) or SUITES[benchmark].metrics[0]):
        return of_suite.better  # where a task's file says its metric, all of them are better when higher
    return _direction_of_name(benchmark)


def _is_unnamed(benchmark: str, metric: str) -> bool:
    return metric in (*_NO_NAMES, benchmark)


def _direction_of_name(name: str) -> Better | None:
    text, spec = _plain(name), known_metric(name)
    for better, signs in _ARROWS.items():
        if any(sign in name.lower() for sign in signs):
            return better
    if _TURNED.search(text):
        return None
    is_loss = _LOSSES.search(text) is not None
    if spec is not None:
        return None if is_loss and spec.better == "higher" else spec.better
    if is_loss:
        return "lower"
    is_doubtful = looks_like_a_loss(name) or _COSTS.search(text) is not None
    return "higher" if _GAINS.search(text) and not is_doubtful else None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def _spec(
    benchmark: str, metric: str, label: str, declared: Declared, default_unit: Unit | None
) -> MetricSpec:
    """What is known of a metric where it stands; a user's word goes before the registry's.

    ``default_unit`` is the unit where neither its name nor anybody says one.
    """
    names = _names(benchmark, metric, label)
    is_unnamed = _is_unnamed(benchmark, metric)
    registered = suite_metric(benchmark, metric) or known_metric(metric)
    registered = registered or (_of_benchmark(benchmark) if is_unnamed else None)
    is_lower, unit = _first_of(declared.lower_is_better, names), _first_of(declared.units, names)
    _refuse_other_than_its_suite(benchmark, metric, is_lower, unit)
    better = find_direction(benchmark, metric, declared, label)
    if better is None and is_unnamed and default_unit and not _is_doubtful(benchmark):
        better = "higher"  # as a table of scores in percent has them
    if better is None:
        name = benchmark if is_unnamed else metric
        raise UsageError(
            f"nothing says which scores of {name} are better; add --lower-is-better {shlex.quote(name)} or "
            f"--higher-is-better {shlex.quote(name)}, or a column lower_is_better with true or false"
        )
    spec = registered or MetricSpec(name=metric, better="higher", unit=default_unit)
    is_of_losses = registered is None and any(map(looks_like_a_loss, (label, benchmark, metric)))
    if better != spec.better or is_of_losses:
        # "accuracy" that a user calls lower-is-better is no percentage of right answers any more.
        # A score of another direction than the name's is another one, of which the unit has to be said.
        other_unit = None if better == "lower" or is_of_losses else spec.unit
        spec = MetricSpec(name=metric, better=better, unit=other_unit)
    return replace(spec, unit=unit) if unit is not None else spec


def _is_doubtful(name: str) -> bool:
    text = _plain(name)
    return looks_like_a_loss(name) or any(words.search(text) for words in (_TURNED, _COSTS, _BESIDE))


def by_name_note(metrics: Iterable[Metric], told: Sequence[Metric] = ()) -> list[str]:
    """Say of which metrics a direction is taken by their name alone, or for want of any word of it.

    Args:
        metrics: All.
        told: Those of which the latter is said elsewhere.
    """
    metrics = list(metrics)
    lower = [x for x in metrics if x.is_by_name and x.better == "lower"]
    assumed = [x.name for x in metrics if x.is_assumed and x not in told]
    notes = []
    if lower:
        names = ", ".join(
            x.name if {*x.metrics} <= {x.name, *_NO_NAMES} else f"{x.name} {x.metrics[0]}" for x in lower
        )
        notes.append(
            f"lower scores are taken as better, by the name: {names}; where that is wrong, say "
            f"--higher-is-better {shlex.quote(lower[0].name)}"
        )
    if assumed:
        notes.append(
            f"higher scores are taken as better, as nothing says which are: {', '.join(assumed)}; of which "
            f"that is wrong, say --lower-is-better {'NAME' if assumed[1:] else shlex.quote(assumed[0])}"
        )
    return notes


def _refuse_other_than_its_suite(
    benchmark: str, metric: str, is_lower: bool | None, unit: Unit | None
) -> None:
    """Refuse what turns a suite's scores round; a table that names no metric has its suite's first."""
    is_unnamed = benchmark in SUITES and metric == NO_METRIC
    spec = _of_benchmark(benchmark) if is_unnamed else suite_metric(benchmark, metric)
    if spec is None:
        return
    if is_lower in (None, spec.better == "lower") and unit in (None, spec.unit):
        return
    fact = f"in {spec.unit} and better when {spec.better}" if spec.unit else f"better when {spec.better}"
    raise UsageError(
        f"the {spec.name} of {benchmark} is {fact}; leave out the unit and lower_is_better, or give the "
        "scores another name"
    )


def _of_benchmark(benchmark: str) -> MetricSpec | None:
    """What a table's scores are that names no metric: one called as the benchmark, else its suite's first."""
    suite = SUITES.get(benchmark)
    return known_metric(benchmark) or (
        suite_metric(benchmark, suite.primary[0]) if suite and suite.primary else None
    )


def looks_like_a_loss(name: str) -> bool:
    """Whether a name is one of those under which people write down what is better when lower."""
    text = _plain(name)
    return _LOSSES.search(text) is not None or _MAYBE_LOSSES.search(text) is not None


def is_known_score(name: str) -> bool:
    """Whether a column of a table is one of scores by its name, be it a suite's or a metric's."""
    if _SPREADS.search(_plain(name)) or _SETTINGS.search(_plain(name)):
        return False
    is_word = looks_like_a_loss(name) or _GAINS.search(_plain(name)) is not None
    return is_word or known_metric(name) is not None or name.lower() in map(str.lower, SUITES)


def is_of_training(name: str) -> bool:
    """Whether a metric is, by its name, of what a model was trained on, as ``train/loss``."""
    return _TRAINING.search(_plain(name)) is not None


def is_beside_scores(name: str) -> bool:
    """Whether a column of a table has, by its name, what runs took or were told."""
    return _BESIDE.search(_plain(name)) is not None


def _refuse_mixtures(label: str, specs: Mapping[str, MetricSpec]) -> None:
    first, *others = specs.items()
    for metric, spec in others:
        if spec.better != first[1].better:
            raise UsageError(
                f"{label} mixes {first[0]} and {metric}, one better when higher and one when lower; give "
                "each a benchmark of its own"
            )
        if spec.unit != first[1].unit and not (is_percentage(spec) and is_percentage(first[1])):
            pairs = f"{first[0]} ({first[1].unit}) and {metric} ({spec.unit})"
            raise UsageError(f"{label} mixes {pairs}; give each a benchmark of its own")


def _refuse_margin(label: str, margin: float, unit: Unit | None, scores: Sequence[float]) -> None:
    """Refuse a margin that is none, or so wide that no score could leave it: one in another unit."""
    if not (math.isfinite(margin) and margin > 0):
        raise UsageError(f"margin {margin:g} of {label} is not a positive number")
    size = 100.0 if unit in PERCENTAGES else max(map(abs, scores), default=math.inf)
    if margin >= size and size > 0:
        of_all = "a margin is in percentage points" if size == 100 else f"no score of it is above {size:g}"
        scale = f", and in {unit}" if unit in LOSS_UNITS else ""
        raise UsageError(f"margin {margin:g} of {label} is too wide: {of_all}{scale}; name a smaller one")


def _have_one_sign(scores: Sequence[float]) -> bool:
    return bool(scores) and (min(scores) > 0 or max(scores) < 0)
