"""Computes everything that a report says, once and before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from base.errors import UsageError
from base.printing import first_few
from report.analysis import Analysis, Request
from report.document.markdown import ordered, ordered_benchmarks
from report.inputs.chosen_rates import TUNED_BY, Tuned, read_tuned, shared_table
from report.inputs.looks import decided_seeds, runs_of_all
from report.inputs.relabel import seen_by
from report.inputs.sources import Source
from report.part import load_part
from report.parts import PARTS
from report.significance.arms import ArmTable
from report.significance.axes import Benchmark, Family, Level
from report.significance.comparison import Inference, metrics
from report.significance.data_checks import clean_rows, notes_on_scores
from report.significance.factor import (
    Contrast,
    Relabelling,
    default_baseline,
    find_level,
    noun,
    parse_contrast,
)
from report.significance.multiple_comparisons import MultipleComparisons, find_primary
from report.statistics.looks import find_looks
from report.verdicts.failed_runs import count_failures, failure_notes, with_failed
from report.verdicts.findings import find, with_shared_rate
from scores.declarations import check_chances, check_margins, check_names, in_percent
from scores.metrics import Declared, Metric, by_name_note
from scores.rows import NO_HEAD
from scores.run_scores import comparable_scores, is_percent, mean_scores
from scores.store import mean_baseline


@dataclass(frozen=True)
class _Scores:
    """Cleaned rows as a factor names them, and what they come to."""

    source: Source
    rows: pd.DataFrame
    tasks: pd.DataFrame
    """What ``comparable_scores`` returns of the rows."""
    runs: pd.DataFrame
    """What ``mean_scores`` returns of the tasks."""
    metrics: Mapping[Benchmark, Metric]
    """What they are."""
    notes: tuple[str, ...]
    """What was left out, in sentences."""
    tuned: Tuned | None = None
    """What the choice of rates adds to the held-out loss."""
    shared: ArmTable | None = None
    """Held-out losses at the rate that is shared."""


@dataclass(frozen=True)
class _Question:
    """What is compared with what, and how."""

    baseline: Level
    others: tuple[Level, ...]
    contrasts: tuple[Contrast, ...]
    """Those asked for beside the comparisons with the baseline."""
    inference: Inference
    primary: tuple[str, ...]
    """Names of the outcomes that claims are made about; none means all."""
    notes: tuple[str, ...]
    """What the study asks and cannot be answered yet, in sentences."""


def analyse(source: Source, request: Request | None = None) -> Analysis:
    """Compute what a report says.

    Args:
        source: Scores, and what was meant to be run.
        request: What is asked of the report; None takes the study's choices and the defaults.

    Raises:
        UsageError: For an unknown baseline, contrast or head, or a single variant.
    """
    request = request or Request()
    taken = [part.name for part in PARTS]
    parts = (*PARTS, *(load_part(place, taken) for place in request.parts))
    seen, rows, copied = _seen(source, request)
    _refuse_one_level(seen, rows)
    question = _question(seen, request, rows)
    scores = _scores(seen, rows, [*copied, *question.notes], request)
    analysis = replace(_analysis(_with_tuning(scores, source), source, question, request), parts=parts)
    for part in parts:
        result = part.compute(analysis)
        if result is not None:
            analysis = replace(analysis, results={**analysis.results, part.name: result})
    return analysis


def read_arms(source: Source, request: Request) -> tuple[Sequence[ArmTable], Sequence[Level], Inference, int]:
    """Return the runs of every outcome, the levels with the baseline first, and how they are compared.

    The last is how many outcomes claims are made about.

    Raises:
        UsageError: As ``analyse``, but one level is enough.
    """
    seen, rows, copied = _seen(source, request)
    question = _question(seen, request, rows)
    scores = _scores(seen, rows, copied, request)
    tables = _tables(scores)
    primary = find_primary(question.primary, [t.benchmark for t in tables], is_strict=bool(request.primary))
    return tables, (question.baseline, *question.others), question.inference, max(1, len(primary))


def _seen(source: Source, request: Request) -> tuple[Source, pd.DataFrame, list[str]]:
    """See a source by the factor asked for: it, its rows without what would count twice, and notes."""
    factor = request.factor or source.design.factor
    listed = (list(map(str, source.design.variants)), source.design.heads)
    _refuse_axes(source, request)
    naming = Relabelling.of_rows(source.rows, factor, request.head, listed, str(source.path), source.axes)
    # Whole runs are looked at for copies: under one head alone, different runs may well score the same.
    rows, copied = clean_rows(source.rows)
    if lost := sorted(set(source.rows.variant) - set(rows.variant)):
        raise UsageError(
            f"{source.path}: no score of {lost[0]} is left to compare; {'; '.join(copied)}; keep one of "
            "each, or name the column that tells them apart: --axis COLUMN"
        )
    return seen_by(source, naming), naming.rows(rows), copied


def _refuse_axes(source: Source, request: Request) -> None:
    """Refuse what is about runs of one configuration."""
    if request.published and source.axes:
        raise UsageError(
            f"--published {request.published} is about runs of one configuration, and {source.path} has axes "
            f"({', '.join(source.axes)}); leave it out"
        )


def _refuse_one_level(source: Source, rows: pd.DataFrame) -> None:
    if rows.variant.nunique() > 1:
        return
    heads = set(rows["head"]) - {NO_HEAD}
    instead = f"; --factor head compares its {len(heads)} heads" if len(heads) > 1 else ""
    raise UsageError(
        f"{source.path} has scores of one {noun(source.factor)} only ({rows.variant[0]}); a comparison "
        f"needs two or more{instead if source.factor == 'ffn' else ''}"
    )


def _question(source: Source, request: Request, rows: pd.DataFrame) -> _Question:
    """Decide what is compared: what was asked for now goes before what the study says."""
    design, factor, present = source.design, source.factor, sorted(rows.variant.unique())
    named = request.baseline
    if named is None:
        named = design.baseline or default_baseline(factor, present, source.axes)
    baseline = find_level(factor, named, present, "baseline (choose one with --baseline)")
    others = tuple(level for level in ordered(present, design.variants) if level != baseline)
    # A study that is at work may ask of levels that it has no scores of yet.
    levels, unscored = (baseline, *others), [name for name in design.variants if name not in present]
    planned = [parse_contrast(text, (*levels, *unscored), baseline, factor) for text in design.contrasts]
    waiting = [contrast for contrast in planned if not contrast.weights().keys().isdisjoint(unscored)]
    asked = [parse_contrast(text, levels, baseline, factor) for text in request.contrasts]
    contrasts = [contrast for contrast in (*planned, *asked) if contrast not in waiting]
    how = _inference(source, request)
    primary = request.primary or design.primary
    notes = tuple(f"contrast `{contrast}` is left out until all of it has scores" for contrast in waiting)
    return _Question(baseline, others, tuple(dict.fromkeys(contrasts)), how, primary, notes)


def _inference(source: Source, request: Request) -> Inference:
    return Inference(
        paired=request.paired or source.design.paired,
        looks=find_looks(request.looks or source.design.looks),
    )


def _scores(source: Source, rows: pd.DataFrame, copied: list[str], request: Request) -> _Scores:
    tasks = comparable_scores(rows)
    if tasks.empty:
        raise UsageError(
            f"{source.path}: nothing is known of {', '.join(sorted(rows.metric.unique()))}, so nothing is "
            "compared; give the scores as a table, in which lower_is_better says which are better"
        )
    names = [name for found in tasks.benchmark.unique() for name in (str(found), found.name)]
    check_names(request.declared, [*names, *rows.metric.unique()])
    said = request.declared.over(source.declared)
    declared = said.over(Declared(chances=_without_model(source, tasks)))
    kinds = metrics(tasks, declared, tasks.benchmark.unique())
    # A study's margin in percentage points is for outcomes in percent, of which it may have none.
    check_margins(kinds.values(), request.declared)
    check_chances(kinds.values(), said)
    if request.scale is not None and not source.is_table:
        raise UsageError(f"--scale is about a CSV; the scores of {source.path} are in percent as written")
    if source.is_table:
        tasks = in_percent(tasks, kinds, request.scale, str(source.path))
    runs, left_out = mean_scores(tasks)
    if runs.empty:
        raise UsageError(f"{source.path}: no benchmark has a task that most of its runs share")
    said_of_kinds = by_name_note(kinds.values())
    notes = (*source.notes, *copied, *left_out, *said_of_kinds, *_not_compared(source, rows, tasks))
    return _Scores(source, rows, tasks, runs, kinds, notes)


def _not_compared(source: Source, rows: pd.DataFrame, tasks: pd.DataFrame) -> Iterable[str]:
    """Name benchmarks of which nothing is compared, and of a table the metrics that stand for no task."""
    columns = ["benchmark", "metric"] if source.is_table else ["benchmark"]
    compared, measured = (set(scores[columns].itertuples(index=False, name=None)) for scores in (tasks, rows))
    names = [" ".join(map(str, place)) for place in measured - compared]
    if names:
        yield f"measured and not compared: {first_few(sorted(names), 4)}"


def _with_tuning(scores: _Scores, source: Source) -> _Scores:
    """Read what was tuned in a study, whose models are then compared by what they were tuned for."""
    runs = runs_of_all(source.design, scores.runs[scores.runs.benchmark == TUNED_BY])
    tuned = read_tuned(source, scores.source, runs) if len(runs) else None
    if tuned is None:
        return scores
    shared = shared_table(source, scores.source, TUNED_BY, scores.metrics[TUNED_BY])
    return replace(scores, tuned=tuned, shared=shared)


def _analysis(scores: _Scores, as_read: Source, question: _Question, request: Request) -> Analysis:
    source, runs, inference = scores.source, scores.runs, question.inference
    baseline, others = question.baseline, question.others
    families = tuple(ordered(scores.rows.family.unique(), source.design.families))
    tables = {arms.benchmark: arms for arms in _tables(scores)}
    benchmarks = tuple(tables)
    primary = find_primary(question.primary, benchmarks, is_strict=bool(request.primary))
    claims = MultipleComparisons(tables, primary, inference)
    found = find(claims, source.factor, families, baseline, others, question.contrasts)
    comparisons = tuple(with_failed(found.comparisons, source.failed, runs))
    contrasts = tuple(with_failed(found.contrasts, source.failed, runs))
    found = replace(found, comparisons=comparisons, contrasts=contrasts)
    found = with_shared_rate(found, TUNED_BY, scores.shared)
    ended = {(facts.run_id, facts.family, facts.variant) for facts in source.facts}
    failures = count_failures(source.failed, ended, comparisons)
    return Analysis(
        **vars(found),
        source=source,
        tuned=scores.tuned,
        source_as_read=as_read,
        claims_made=claims,
        request=request,
        metrics=scores.metrics,
        runs=runs,
        rows=scores.rows,
        arms=_summarise(runs, ["benchmark", "family", "variant"]),
        tasks=_summarise_tasks(scores),
        scores_of_tasks=scores.tasks,
        failures=failures,
        missing=_missing(source, runs, (baseline, *others), families, benchmarks),
        warnings=(
            *source.other_sources,
            *failure_notes(failures, inference.level),
            *_warnings(scores, baseline),
            *(scores.tuned.notes if scores.tuned else ()),
        ),
    )


def _without_model(source: Source, tasks: pd.DataFrame) -> dict[str, float]:
    """What constant answers and guesses score, by benchmark, where that is known of all its tasks."""
    found = {
        benchmark.name: mean_baseline(source.baselines[benchmark.name], tasks[tasks.benchmark == benchmark])
        for benchmark in tasks.benchmark.unique()
        if benchmark.name in source.baselines
    }
    return {name: level for name, level in found.items() if level is not None}


def _tables(scores: _Scores) -> list[ArmTable]:
    """The runs of every outcome, in the order in which they are shown."""
    runs, design = scores.runs, scores.source.design
    return [
        ArmTable.of_scores(
            runs[runs.benchmark == name],
            name,
            metric=scores.metrics[name],
            decided=decided_seeds(design, name),
            choices=scores.tuned.choices if scores.tuned and name == TUNED_BY else None,
        )
        for name in ordered_benchmarks(runs.benchmark.unique(), design.benchmarks)
    ]


def _warnings(scores: _Scores, baseline: Level) -> Iterable[str]:
    """Everything that is amiss with the scores, in sentences."""
    of_all = runs_of_all(scores.source.design, scores.runs)
    yield from scores.notes
    yield from notes_on_scores(scores.rows, scores.tasks, scores.runs, of_all, scores.metrics, baseline)


def _summarise(scores: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    return scores.groupby(keys)["score"].agg(n="count", mean="mean", sd="std").reset_index()


def _summarise_tasks(scores: _Scores) -> pd.DataFrame:
    # A causal model's perplexity and a masked one's have names of their own: all of them.
    compared = pd.MultiIndex.from_frame(scores.tasks[["benchmark", "task", "metric"]])
    measured = scores.rows[~is_percent(scores.rows["metric"])]
    others = measured[~pd.MultiIndex.from_frame(measured[["benchmark", "task", "metric"]]).isin(compared)]
    keys = ["benchmark", "group", "task", "metric", "family", "variant"]
    return (
        pd.concat([scores.tasks, others])
        .groupby(keys)
        .agg(n=("score", "count"), mean=("score", "mean"), sd=("score", "std"), n_items=("n_items", "max"))
        .reset_index()
    )


def _missing(
    source: Source,
    scores: pd.DataFrame,
    variants: Sequence[Level],
    families: Sequence[Family],
    benchmarks: Sequence[Benchmark],
) -> pd.DataFrame:
    """List the runs of the study without a score, seeds of one family and variant together."""
    design = source.design
    # What has no unit is measured and not compared.
    unscaled = set(source.rows.benchmark) - set(benchmarks)
    found = set(zip(scores.benchmark, scores.family, scores.variant, scores.seed, strict=True))
    # Without a study file, what a variant was never run on was not meant to be.
    ever = {(benchmark, variant) for benchmark, _, variant, _ in found}
    missing = []
    for benchmark in ordered_benchmarks({*benchmarks, *design.benchmarks} - unscaled, design.benchmarks):
        for family in ordered({*families, *design.families}, design.families):
            for variant in ordered({*variants, *design.variants}, variants):
                wanted = design.seeds_of(family, variant)
                seeds = [seed for seed in wanted if (benchmark, family, variant, seed) not in found]
                if seeds and (design.written or (benchmark, variant) in ever):
                    missing.append((benchmark, family, variant, ", ".join(map(str, seeds))))
    return pd.DataFrame(missing, columns=["benchmark", "family", "variant", "seeds"])
