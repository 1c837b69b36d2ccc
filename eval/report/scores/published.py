"""Own scores beside published ones: levels, effects, and the source study's intervals.

Descriptive: nothing here is corrected, and no verdict rests on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from base.errors import UsageError
from base.families import PRETRAINED
from eval.classification.heads.registry import head_name, parse_head
from eval.report.document.markdown import signed, table
from eval.results.published import PublishedSource, read_published
from eval.results.rows import NO_HEAD, NO_METRIC, RunKey
from eval.results.run_scores import SINGLE_TASK, run_scores
from eval.significance.axes import Benchmark, Combination, Level
from eval.significance.contrasts import Contrast
from eval.significance.factor import Factor, is_paired
from eval.significance.statistics.source_study import SourceStudyInterval, source_study_interval
from eval.significance.statistics.welch import NO_SPREAD, welch

LEFT_OPEN = ("init_scale",)
"""Options of heads that the sources do not say: they keep no score from its counterpart."""
SAME_AS = {"blimp": "babylm23"}
"""A table's ``blimp`` without tasks is taken for the mean of 17 tasks, which the source study calls so."""


class Interval(NamedTuple):
    """An estimate with its 95% interval; the ends are None where nothing says how sure it is."""

    estimate: float
    low: float | None = None
    high: float | None = None


class Outcome(NamedTuple):
    """What was scored, as the published tables name it; ``task`` is ``all`` for a mean over a benchmark."""

    benchmark: str
    task: str
    metric: str

    def __str__(self) -> str:
        if self.task == SINGLE_TASK:
            return self.benchmark
        return f"{self.task} {self.metric.replace('_', ' ')}"


class Model(NamedTuple):
    """What was scored on it; a head is empty where none has part in a score."""

    family: str
    variant: str
    head: str


@dataclass(frozen=True, kw_only=True)
class BesidePublished:
    """One score or effect beside its published counterpart; all numbers in the unit of the scores."""

    outcome: Outcome
    model: Model
    table: str
    """Of the source."""
    models: str
    """Whose the published number is: a family, or how many of which it is the mean."""
    own: Interval
    published: Interval
    difference: Interval
    num_own: int
    """Runs; of an effect those of the smaller arm."""
    num_published: int
    """Published runs; 1 where there is one number."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """Everything that stands beside a source's tables."""

    source: PublishedSource
    baseline: str
    levels: tuple[BesidePublished, ...] = ()
    effects: tuple[BesidePublished, ...] = ()
    """Each variant or head minus the baseline, own and published."""
    own_alone: tuple[str, ...] = ()
    """Own outcomes, variants and heads that the source has not."""
    published_alone: tuple[str, ...] = ()
    """The source's that are not among the own scores."""


Runs = Mapping[int, float]
"""Scores by seed."""
Own = Mapping[tuple[Outcome, Model], Runs]
Term = tuple[float, np.ndarray]
"""Weight and scores of an arm."""


class _Scores(NamedTuple):
    """Published runs, or one number."""

    table: str
    values: np.ndarray


class _Counterpart(NamedTuple):
    """Published scores of one variant and head on one outcome, by family."""

    families: Mapping[str, _Scores]

    def of(self, model: Model, shared: Sequence[str] = ()) -> tuple[str, _Scores]:
        """The runs of a model's family, else the mean over families as one number; with whose they are."""
        for family in _may_be(model):
            if family in self.families and (not shared or family in shared):
                return family, self.families[family]
        names = list(shared or self.families)
        mean = np.array([np.mean([self.families[name].values.mean() for name in names])])
        table = " and ".join(dict.fromkeys(self.families[name].table for name in names))
        return names[0] if len(names) == 1 else f"mean of {len(names)} models", _Scores(table, mean)


def _may_be(model: Model) -> Iterable[str]:
    """Families that a model may be of: that of a study's backbones is told by its name, distilbert-base."""
    return model.family, *re.findall("[a-z]+", model.variant.lower() if model.family == PRETRAINED else "")


def beside_published(
    rows: pd.DataFrame, source: PublishedSource, factor: Factor, baseline: Level, scale: float = 1.0
) -> Published:
    """Set own scores beside a source's.

    Args:
        rows: What ``normalise_rows`` returns, copies left out and not relabelled.
        source: Whose tables.
        factor: What is compared.
        baseline: With what.
        scale: What scores are to be multiplied by to be percentages.
    """
    said = read_published(source)
    own, tables = _own_runs(_as_the_source_names(rows, said), scale), _counterparts(said)
    pairs = {key: found for key in own if (found := _counterpart(tables, *key)) is not None}
    effects = [
        _effect(key, own[key], own[base], pairs[key], pairs[base], is_paired(factor))
        for key in pairs
        if (base := (key[0], _baseline_of(key[1], factor, baseline))) in pairs and base != key
    ]
    return Published(
        source=source,
        baseline=str(baseline),
        levels=tuple(_level(key, own[key], found) for key, found in pairs.items()),
        effects=tuple(found for found in effects if found is not None),
        own_alone=tuple(dict.fromkeys(_own_alone(own, pairs))),
        published_alone=tuple(dict.fromkeys(_published_alone(said, pairs))),
    )


def _as_the_source_names(rows: pd.DataFrame, said: pd.DataFrame) -> pd.DataFrame:
    """Name benchmarks as the source's rows do, where a table has no tasks that would tell them apart."""
    has_tasks = (rows.task != SINGLE_TASK).groupby(rows.benchmark).transform("any")
    known = set(said.benchmark)
    names = {name: other for name, other in SAME_AS.items() if other in known - set(rows.benchmark)}
    return rows.assign(benchmark=rows.benchmark.where(has_tasks, rows.benchmark.replace(names)))


def _own_runs(rows: pd.DataFrame, scale: float) -> Own:
    """Every task in every metric, and the mean of each benchmark under each head."""
    means = [run_scores(part)[0].assign(head=head) for head, part in rows.groupby("head")]
    of_benchmarks = pd.concat(means).assign(task=SINGLE_TASK, metric=NO_METRIC)
    of_tasks = rows[rows.task != SINGLE_TASK]
    names = ["benchmark", "task", "metric", "family", "variant", "head", "seed", "score"]
    found: dict[tuple[Outcome, Model], dict[int, float]] = {}
    for *place, seed, score in pd.concat([of_tasks[names], of_benchmarks[names]]).itertuples(index=False):
        texts = list(map(str, place))
        key = Outcome(*texts[:3]), Model(*texts[3:])
        found.setdefault(key, {})[int(seed)] = scale * float(score)
    return found


def _counterparts(said: pd.DataFrame) -> dict[tuple[Outcome, str, str], _Counterpart]:
    found = {}
    # Where a source names heads, a score without one is of a model that has none: no head stands beside it.
    with_heads = said[said["head"] != NO_HEAD]
    kept = said if with_heads.empty else with_heads
    for key, rows in kept.groupby(["benchmark", "task", "metric", "variant", "head"]):
        benchmark, task, metric, variant, head = map(str, key)
        families = {
            str(name): _Scores(str(part.table.iloc[0]), part.score.to_numpy(float))
            for name, part in rows.groupby("family")
        }
        place = Outcome(benchmark, task, metric), variant, _as_named(head)
        found[place] = _Counterpart(families)
    return found


def _counterpart(
    tables: Mapping[tuple[Outcome, str, str], _Counterpart], outcome: Outcome, model: Model
) -> _Counterpart | None:
    """What a source says of a score; it names no variant, or no head, where it has but one."""
    heads, variants = (_as_named(model.head), NO_HEAD), (model.variant, "")
    places = [(outcome, variant, head) for variant in variants for head in heads]
    return next((tables[place] for place in places if place in tables), None)


def _as_named(head: str) -> str:
    """A head without the options that the sources leave open."""
    if not head:
        return head
    with suppress(UsageError):
        choice = parse_head(head)
        kept = tuple(option for option in choice.options if option[0] not in LEFT_OPEN)
        return head_name(str(replace(choice, options=kept)))
    return head


def _baseline_of(model: Model, factor: Factor, baseline: Level) -> Model:
    """The model that another one is compared with."""
    if isinstance(baseline, Combination):
        return model._replace(variant=baseline.variant, head=baseline.head)
    name = "head" if factor == "head" else "variant"
    return Model(**{**model._asdict(), name: str(baseline)})


def _level(key: tuple[Outcome, Model], runs: Runs, found: _Counterpart) -> BesidePublished:
    models, said = found.of(key[1])
    return _beside(key, said.table, models, [(1.0, _scores(runs))], [(1.0, said.values)])


def _effect(
    key: tuple[Outcome, Model], runs: Runs, base: Runs, one: _Counterpart, other: _Counterpart, paired: bool
) -> BesidePublished | None:
    """A level minus the baseline's; published over the families that have both."""
    shared = [name for name in one.families if name in other.families]
    if paired:
        own = [(1.0, np.array([score - base[seed] for seed, score in runs.items() if seed in base]))]
    else:
        own = [(1.0, _scores(runs)), (-1.0, _scores(base))]
    if not shared or not len(own[0][1]):
        return None
    (models, first), (_, second) = (found.of(key[1], shared) for found in (one, other))
    table = first.table if first.table == second.table else f"{first.table} minus {second.table}"
    return _beside(key, table, models, own, [(1.0, first.values), (-1.0, second.values)])


def _scores(runs: Runs) -> np.ndarray:
    return np.array(list(runs.values()), dtype=float)


def _beside(
    key: tuple[Outcome, Model], table: str, models: str, own: list[Term], published: list[Term]
) -> BesidePublished:
    mine, theirs = weighted(own), weighted(published)
    # A published arm of one number is taken as it stands: its own spread is not known.
    known = [(-weight, x) for weight, x in published if len(x) > 1]
    number = sum(weight * float(x[0]) for weight, x in published if len(x) == 1)
    difference = weighted([*own, *known], number)
    return BesidePublished(
        outcome=key[0],
        model=key[1],
        table=table,
        models=models,
        own=mine,
        published=theirs,
        difference=difference,
        num_own=min(len(x) for _, x in own),
        num_published=min(len(x) for _, x in published),
    )


def weighted(terms: Sequence[Term], number: float = 0.0) -> Interval:
    """A weighted sum of the means of arms, minus a number, with Welch's interval: of one arm it is Student's.

    There is no interval where an arm has one run, or where none has any spread.
    """
    estimate = float(sum(weight * x.mean() for weight, x in terms)) - number
    if any(len(x) < 2 for _, x in terms):
        return Interval(estimate)
    weights, arms = zip(*terms, strict=True)
    found = welch([x.mean() for x in arms], [x.var(ddof=1) for x in arms], [len(x) for x in arms], weights)
    if not found.standard_error > NO_SPREAD:
        return Interval(estimate)
    half = float(found.high - found.estimate)
    return Interval(estimate, estimate - half, estimate + half)


def _own_alone(own: Own, pairs: Iterable[tuple[Outcome, Model]]) -> Iterable[str]:
    """Outcomes of which nothing has a counterpart; of the others the variants and heads that have none."""
    pairs = list(pairs)
    outcomes = {outcome for outcome, _ in pairs}
    benchmarks, tasks = ({getattr(outcome, name) for outcome in outcomes} for name in ("benchmark", "task"))
    yield from (x.benchmark for x, _ in own if x.task == SINGLE_TASK and x.benchmark not in benchmarks)
    grouped = {x.benchmark for x in outcomes if x.task != SINGLE_TASK}
    yield from (x.task for x, _ in own if x.benchmark in grouped and x.task not in {*tasks, SINGLE_TASK})
    of_outcomes = [model for outcome, model in own if outcome in outcomes]
    for name in ("variant", "head"):
        known = {getattr(model, name) for _, model in pairs}
        yield from (f"`{getattr(x, name)}`" for x in of_outcomes if getattr(x, name) not in known)


def _published_alone(said: pd.DataFrame, pairs: Iterable[tuple[Outcome, Model]]) -> Iterable[str]:
    """Outcomes, variants and heads of the source that no own score stands beside."""
    pairs = list(pairs)
    places = {(outcome.benchmark, outcome.task) for outcome, _ in pairs}
    for benchmark, task in dict.fromkeys(zip(said.benchmark, said.task, strict=True)):
        if (benchmark, task) not in places:
            yield benchmark if task == SINGLE_TASK else task
    variants, heads = {model.variant for _, model in pairs}, {_as_named(model.head) for _, model in pairs}
    yield from (f"`{name}`" for name in said.variant.unique() if name and name not in variants)
    yield from (f"`{name}`" for name in said["head"].unique() if name and _as_named(name) not in heads)


Intervals = Mapping[tuple[Benchmark, Contrast], SourceStudyInterval]
"""By benchmark and contrast."""


def source_study_intervals(
    scores: pd.DataFrame, order: Sequence[RunKey], contrasts: Sequence[Contrast]
) -> Intervals:
    """Repeat the study's interval for every benchmark and contrast whose arms have runs.

    Args:
        scores: What ``run_scores`` returns.
        order: Runs as they stand in the table: the draws depend on it.
        contrasts: Variants of a group are put one after another as they are named; all families together.
    """
    places = {key: place for place, key in enumerate(order)}
    keys = zip(scores.family, scores.variant, scores.seed, strict=True)
    in_order = scores.assign(place=[places[key] for key in keys]).sort_values("place")
    found = {}
    for benchmark in sorted(scores.benchmark.unique()):
        of_benchmark = in_order[in_order.benchmark == benchmark]
        arms: dict[Level, np.ndarray] = {
            name: of_benchmark.score[of_benchmark.variant == name].to_numpy(float)
            for name in of_benchmark.variant.unique()
        }
        for contrast in contrasts:
            if all(name in arms for name in (*contrast.plus, *contrast.minus)):
                first, second = (
                    np.concatenate([arms[name] for name in side]) for side in (contrast.plus, contrast.minus)
                )
                found[benchmark, contrast] = source_study_interval(first, second)
    return found


def source_study_section(intervals: Intervals) -> str:
    """Write the intervals with what is wrong with them; empty where none was asked for."""
    if not intervals:
        return ""
    rows = [
        [str(benchmark), f"`{contrast}`", signed(found.estimate, 3), f"[{found.low:+.3f}, {found.high:+.3f}]"]
        for (benchmark, contrast), found in intervals.items()
    ]
    return (
        "## The source study's method\n\n**For comparison only; no verdict rests on it.** The study pools "
        "the families and takes the percentiles of 10,000 resampled differences, both arms drawn with one "
        "generator state. In simulation its nominal 95% interval covers 83 to 86% at five or six seeds. The "
        "difference is the mean over the resamples, as the study printed it. Both depend on the order of the "
        "table's rows and of the names in a contrast.\n\n"
        + table(["benchmark", "contrast", "difference", "nominal 95%"], rows)
    )
