"""Computes everything that a report says, once and before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import pandas as pd

from base.errors import UsageError
from base.printing import first_few
from report.analysis import Analysis
from report.document.markdown import ordered, ordered_benchmarks
from report.inputs.chosen_rates import TUNED_BY, Tuned, read_tuned, shared_table
from report.inputs.relabel import seen_by
from report.inputs.sources import Source
from report.part import load_part
from report.parts import PARTS
from report.request import Request
from report.significance.arms import ArmTable
from report.significance.axes import Benchmark, Level
from report.significance.comparison import Inference, metrics
from report.significance.data_checks import clean_rows, gravest_first, notes_on_scores
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
from report.verdicts.findings import Findings, find, with_shared_rate
from scores.declarations import check_chances, check_margins, check_names, in_percent, small_percentages
from scores.metrics import Declared, Metric, by_name_note
from scores.rows import NO_HEAD
from scores.run_scores import comparable_scores, is_percent, mean_scores
from scores.store import mean_baseline


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is compared with what, and how."""

    levels: tuple[Level, ...]
    """The baseline first."""
    contrasts: tuple[Contrast, ...]
    """Those asked for beside the comparisons with the baseline."""
    inference: Inference
    notes: tuple[str, ...]
    """What the study asks and cannot be answered yet, in sentences."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Cleaned rows as a factor names them, and what they come to."""

    rows: pd.DataFrame
    tasks: pd.DataFrame
    """What ``comparable_scores`` returns of the rows."""
    runs: pd.DataFrame
    """What ``mean_scores`` returns of the tasks."""
    metrics: Mapping[Benchmark, Metric]
    """What they are."""
    notes: tuple[str, ...]
    """What was left out, in sentences."""


def analyse(source: Source, request: Request | None = None) -> Analysis:
    """Compute what a report says.

    Args:
        source: Scores, and what was meant to be run.
        request: What is asked of the report; None takes the study's choices and the defaults.

    Raises:
        UsageError: For an unknown baseline, contrast or head, or a single variant.
    """
    request = request or Request()
    names = [part.name for part in PARTS]
    parts = (*PARTS, *(load_part(place, names) for place in request.part))
    if request.published and source.axes:
        raise UsageError(
            f"--published {request.published} is about runs of one configuration, and {source.path} has axes "
            f"({', '.join(source.axes)}); leave it out"
        )
    relabelled, question, scores = read_scores(source, request)
    analysis = replace(_analysis(source, relabelled, question, scores, request), parts=parts)
    for part in parts:
        result = part.compute(analysis)
        if result is not None:
            analysis = replace(analysis, results={**analysis.results, part.name: result})
    return analysis


def read_scores(source: Source, request: Request, fewest: int = 2) -> tuple[Source, Question, Scores]:
    """Name a source's runs by the factor whose levels are compared, and bring its scores to one a run.

    Args:
        source: Scores, and what was meant to be run.
        request: What is asked of the report.
        fewest: Levels that there must be.

    Returns:
        The source with those names, what is compared, and the scores.

    Raises:
        UsageError: As ``analyse``.
    """
    factor = request.factor or source.design.report.factor
    listed = (list(map(str, source.design.variants)), source.design.heads)
    naming = Relabelling.of_rows(source.rows, factor, request.head, listed, str(source.path), source.axes)
    # Whole runs are looked at for copies: under one head alone, different runs may well score the same.
    rows, copied = clean_rows(source.rows)
    if lost := sorted(set(source.rows.variant) - set(rows.variant)):
        cure = "keep one of each, or name the column that tells them apart: --columns task=COLUMN"
        raise UsageError(f"{source.path}: no score of {lost[0]} is left; {'; '.join(copied)}; {cure}")
    relabelled, rows = seen_by(source, naming), naming.rows(rows)
    if rows.variant.nunique() < fewest:
        _refuse_one_level(relabelled, rows)
    question = _question(relabelled, request, rows)
    return relabelled, question, _scores(relabelled, rows, [*copied, *question.notes], request)


def _refuse_one_level(source: Source, rows: pd.DataFrame) -> None:
    heads = set(rows["head"]) - {NO_HEAD}
    instead = f"; --factor head compares its {len(heads)} heads" if len(heads) > 1 else ""
    raise UsageError(
        f"{source.path} has scores of one {noun(source.factor)} only ({rows.variant[0]}); a comparison "
        f"needs two or more{instead if source.factor == 'ffn' else ''}"
    )


def _question(source: Source, request: Request, rows: pd.DataFrame) -> Question:
    """Decide what is compared: what is asked for now goes before what the study says."""
    design, factor, present = source.design, source.factor, sorted(rows.variant.unique())
    name = request.baseline or design.report.baseline or default_baseline(factor, present, source.axes)
    try:
        baseline = find_level(factor, name, present)
    except UsageError:
        names, is_usual = ", ".join(map(str, present)), not (request.baseline or design.report.baseline)
        name += ", the usual baseline" * is_usual
        raise UsageError(f"there is no {name}; choose one with --baseline: {names}") from None
    levels = (baseline, *(level for level in ordered(present, design.variants) if level != baseline))
    # A study that is at work may ask of levels that it has no scores of yet.
    unscored = [level for level in design.variants if level not in present]
    planned = [
        parse_contrast(text, (*levels, *unscored), baseline, factor) for text in design.report.contrasts
    ]
    waiting = [contrast for contrast in planned if not contrast.weights().keys().isdisjoint(unscored)]
    requested = [parse_contrast(text, levels, baseline, factor) for text in request.contrast]
    contrasts = [contrast for contrast in (*planned, *requested) if contrast not in waiting]
    looks = find_looks(request.planned_looks or design.looks)
    return Question(
        levels=levels,
        contrasts=tuple(dict.fromkeys(contrasts)),
        inference=Inference(paired=request.paired or design.report.paired, looks=looks),
        notes=tuple(f"contrast `{contrast}` is left out until all of it has scores" for contrast in waiting),
    )


def _scores(source: Source, rows: pd.DataFrame, notes: Sequence[str], request: Request) -> Scores:
    tasks = comparable_scores(rows)
    if tasks.empty:
        raise UsageError(
            f"{source.path}: nothing is known of {', '.join(sorted(rows.metric.unique()))}, so nothing is "
            "compared; give the scores as a table, in which lower_is_better says which are better"
        )
    benchmarks = tasks.benchmark.unique()
    names = [name for benchmark in benchmarks for name in (str(benchmark), benchmark.name)]
    check_names(request.declared, [*names, *rows.metric.unique()])
    chances = Declared(chances=_without_model(source, tasks))

    def find_metrics(asked: Declared) -> Mapping[Benchmark, Metric]:
        return metrics(tasks, asked.over(source.declared).over(chances), benchmarks)

    # A study's margin in percentage points is for outcomes in percent, of which it may have none.
    asked = check_margins(find_metrics(request.declared).values(), request.declared)
    kinds, declared = find_metrics(asked), asked.over(source.declared)
    check_chances(kinds.values(), declared)
    if request.scale and not source.is_table:
        raise UsageError(f"--scale is about a CSV; the scores of {source.path} are in percent as written")
    if source.is_table:
        tasks = in_percent(tasks, kinds, request.scales, str(source.path))
        notes = [*notes, *small_percentages(tasks, request.scales)]
    runs, left_out = mean_scores(tasks)
    if runs.empty:
        raise UsageError(f"{source.path}: no benchmark has a task that most of its runs share")
    notes = (*source.notes, *notes, *left_out, *_not_compared(source, rows, tasks))
    if source.design.written and request.margin:
        own = replace(declared, margins=source.declared.margins, margin=source.declared.margin)
        pairs = zip(kinds.values(), metrics(tasks, own, benchmarks).values(), strict=True)
        others = [
            f"{x.margin:g} of {x.name} for {y.margin or 'none'}" for x, y in pairs if x.margin != y.margin
        ]
        notes = (*notes, *(f"margin given in place of the study's: {other}" for other in others))
    return Scores(rows=rows, tasks=tasks, runs=runs, metrics=kinds, notes=notes)


def _without_model(source: Source, tasks: pd.DataFrame) -> dict[str, float]:
    """What constant answers and guesses score, by benchmark, where that is known of all its tasks."""
    levels = {
        benchmark.name: mean_baseline(source.baselines[benchmark.name], tasks[tasks.benchmark == benchmark])
        for benchmark in tasks.benchmark.unique()
        if benchmark.name in source.baselines
    }
    return {name: level for name, level in levels.items() if level is not None}


def _not_compared(source: Source, rows: pd.DataFrame, tasks: pd.DataFrame) -> Iterable[str]:
    """Name benchmarks of which nothing is compared, and of a table the metrics that stand for no task."""
    columns = ["benchmark", "metric"] if source.is_table else ["benchmark"]
    compared, measured = (set(scores[columns].itertuples(index=False, name=None)) for scores in (tasks, rows))
    names = [" ".join(map(str, place)) for place in measured - compared]
    if names:
        yield f"measured and not compared: {first_few(sorted(names), 4)}"


def arm_tables(source: Source, scores: Scores, tuned: Tuned | None = None) -> dict[Benchmark, ArmTable]:
    """Return the runs of every outcome, in the order in which they are shown."""
    runs, design = scores.runs, source.design
    return {
        name: ArmTable.of_scores(
            runs[runs.benchmark == name],
            name,
            metric=scores.metrics[name],
            choices=tuned.choices if tuned and name == TUNED_BY else None,
        )
        for name in ordered_benchmarks(runs.benchmark.unique(), design.benchmarks)
    }


def _analysis(
    source: Source, relabelled: Source, question: Question, scores: Scores, request: Request
) -> Analysis:
    runs, levels = scores.runs, question.levels
    tuned = read_tuned(source, relabelled, runs[runs.benchmark == TUNED_BY])
    tables = arm_tables(relabelled, scores, tuned)
    primary = find_primary(
        request.primary or relabelled.design.report.primary, tuple(tables), is_strict=bool(request.primary)
    )
    claims = MultipleComparisons(tables, primary, question.inference)
    families = tuple(ordered(scores.rows.family.unique(), relabelled.design.families))
    findings = find(claims, relabelled.factor, families, levels[0], levels[1:], question.contrasts)
    findings = replace(
        findings,
        comparisons=with_failed(findings.comparisons, relabelled.failed, runs),
        contrasts=with_failed(findings.contrasts, relabelled.failed, runs),
    )
    if tuned:
        shared = shared_table(source, relabelled, TUNED_BY, scores.metrics[TUNED_BY])
        findings = with_shared_rate(findings, TUNED_BY, shared)
    ended = {(facts.run_id, facts.family, facts.variant) for facts in relabelled.facts}
    ended |= {*runs[["run_id", "family", "variant"]].itertuples(index=False, name=None)}
    failures = count_failures(relabelled.failed, ended, findings.comparisons)
    return Analysis(
        **vars(findings),
        source=relabelled,
        tuned=tuned,
        source_as_read=source,
        claims_made=claims,
        request=request,
        metrics=scores.metrics,
        runs=runs,
        rows=scores.rows,
        arms=runs.groupby(["benchmark", "family", "variant"])["score"]
        .agg(n="count", mean="mean", sd="std")
        .reset_index(),
        tasks=_summarise_tasks(scores),
        scores_of_tasks=scores.tasks,
        failures=failures,
        missing=_missing(relabelled, findings, runs),
        warnings=gravest_first(
            *failure_notes(failures, question.inference.level),
            *scores.notes,
            *by_name_note(scores.metrics.values(), [scores.metrics[name] for name in primary]),
            *notes_on_scores(runs, levels[0]),
            *(tuned.notes if tuned else ()),
        ),
    )


def _summarise_tasks(scores: Scores) -> pd.DataFrame:
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


def _missing(source: Source, findings: Findings, runs: pd.DataFrame) -> pd.DataFrame:
    """List the runs of the study without a score, seeds of one family and variant together."""
    design, benchmarks = source.design, set(findings.benchmarks)
    # What has no unit is measured and not compared.
    expected = {*benchmarks, *design.benchmarks} - (set(source.rows.benchmark) - benchmarks)
    scored = set(zip(runs.benchmark, runs.family, runs.variant, runs.seed, strict=True))
    # Without a study file, what a variant was never run on was not meant to be.
    ever_scored = {(benchmark, variant) for benchmark, _, variant, _ in scored}
    arms = product(
        ordered_benchmarks(expected, design.benchmarks),
        ordered({*findings.families, *design.families}, design.families),
        ordered({*findings.variants, *design.variants}, findings.variants),
    )
    seeds_of = {arm: {*seeds} for arm, seeds in runs.groupby(["family", "variant"])["seed"]}
    missing = []
    for benchmark, family, variant in arms:
        own = {*design.seeds} if design.written else seeds_of.get((family, variant), {*design.seeds})
        # Seeds of arms that share none with this one are numbered otherwise.
        planned = own.union(*(seeds for seeds in seeds_of.values() if seeds & own))
        seeds = [seed for seed in sorted(planned) if (benchmark, family, variant, seed) not in scored]
        if seeds and (design.written or (benchmark, variant) in ever_scored):
            missing.append((benchmark, family, variant, ", ".join(map(str, seeds))))
    return pd.DataFrame(missing, columns=["benchmark", "family", "variant", "seeds"])
