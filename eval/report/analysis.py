"""Everything a report says, computed once from a source and before anything is written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from base.errors import UsageError
from eval.report.names import ordered, ordered_benchmarks
from eval.report.noise import ItemAnalysis, analyse_items
from eval.report.phenomena import compare_parts, means_over_parts
from eval.report.power import Power, power_of
from eval.report.relabel import seen_by
from eval.report.run_facts import RunFacts
from eval.report.sensitivity import Sensitivity, sensitivities
from eval.report.source_study import Intervals, source_study_intervals
from eval.report.sources import Plan, Source
from eval.results.rows import NO_HEAD
from eval.results.run_scores import is_percent, run_scores, task_scores
from eval.significance.arms import ArmTable
from eval.significance.compare import compare_arms, compare_with_baseline, scopes
from eval.significance.comparison import DEFAULT_MARGIN, Comparison, Inference
from eval.significance.contrasts import Contrast, parse_contrast
from eval.significance.data_checks import (
    balance_notes,
    clean_rows,
    find_outliers,
    flat_notes,
    outlier_notes,
    range_notes,
)
from eval.significance.factor import NOUNS, Factor, Relabelling, default_baseline, find_level
from eval.significance.statistics.bootstrap import Bootstrap
from eval.suites import chance_of_pairs

Method = Literal["default", "source-study"]
NEAR_CHANCE = 3.0  # points


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asked of a report; None takes the study's choice, else the default.

    A study that pairs its seeds stays paired, as that was chosen before the results.
    """

    factor: Factor | None = None
    """Whose levels are compared: FFN variants, heads, or both."""
    head: str | None = None
    """With the FFN as factor: keep the scores of this head only, and those without a head."""
    baseline: str | None = None
    contrasts: tuple[str, ...] = ()
    margin: float | None = None
    paired: bool = False
    bootstrap: Bootstrap = "studentized"
    method: Method = "default"
    """``source-study``: also the source study's own intervals, for comparison only."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Scores, comparisons and what is wrong or missing, ready to be written down."""

    source: Source
    request: Request
    baseline: str
    inference: Inference
    families: tuple[str, ...]
    variants: tuple[str, ...]
    """The baseline first."""
    benchmarks: tuple[str, ...]
    runs: pd.DataFrame
    """run_id, family, variant, seed, benchmark, score: one row per run and benchmark."""
    arms: pd.DataFrame
    """benchmark, family, variant, n, mean, sd; sd over seeds, nan for one run."""
    tasks: pd.DataFrame
    """benchmark, group, task, metric, family, variant, n, mean, sd, n_items."""
    comparisons: tuple[Comparison, ...]
    contrasts: tuple[Comparison, ...]
    parts: tuple[Comparison, ...]
    """Every variant against the baseline on every phenomenon or task, averaged over families."""
    power: tuple[Power, ...]
    sensitivities: tuple[Sensitivity, ...]
    items: ItemAnalysis
    """Where the noise is; empty without items."""
    source_study: Intervals
    """Where they were asked for."""
    part_means: pd.DataFrame
    """benchmark, family, variant, n, mean, sd, num_parts: with every phenomenon weighed alike."""
    missing: pd.DataFrame
    """benchmark, family, variant, seeds: arms that lack scores of these seeds."""
    warnings: tuple[str, ...]

    @property
    def noun(self) -> str:
        """What a variant is called: variant, head or combination of both."""
        return NOUNS[self.source.factor]

    @property
    def is_of_heads(self) -> bool:
        """Whether several scores are those of one pretrained model under several heads."""
        return self.source.factor != "ffn"

    @property
    def margin(self) -> float:
        """Percentage points below which a difference is called negligible."""
        return self.inference.margin

    @property
    def confidence(self) -> float:
        """Level of the intervals."""
        return self.inference.confidence

    @property
    def others(self) -> tuple[str, ...]:
        """Every variant but the baseline."""
        return self.variants[1:]

    @property
    def not_compared(self) -> list[str]:
        """Benchmarks without percentages: measured, and in no mean and no test."""
        return [name for name in self.tasks.benchmark.unique() if name not in self.benchmarks]

    @property
    def facts(self) -> tuple[RunFacts, ...]:
        """What the run folders tell beside the scores; empty for a table."""
        return self.source.facts

    def scopes(self, benchmark: str) -> list[str | None]:
        """The average over families first, then each; the average is None."""
        present = self.runs[self.runs.benchmark == benchmark].family.unique()
        return scopes([family for family in self.families if family in present])

    def primary(self, benchmark: str) -> list[Comparison]:
        """The comparisons that the answer rests on, one per variant."""
        return self.of(benchmark, self.scopes(benchmark)[0])

    def of(self, benchmark: str, family: str | None) -> list[Comparison]:
        """One comparison per variant other than the baseline, in the order of ``others``."""
        return [c for c in self.comparisons if c.benchmark == benchmark and c.family == family]


def analyse(source: Source, request: Request | None = None) -> Analysis:
    """Compute what a report says.

    Args:
        source: Scores and their plan.
        request: What is asked of the report; None takes the study's choices and the defaults.

    Raises:
        UsageError: For an unknown baseline, contrast or head, or a single variant.
    """
    request = request or Request()
    factor = request.factor or source.plan.factor
    if request.method == "source-study" and factor != "ffn":
        raise UsageError(f"--method source-study is about FFN variants; leave out --factor {factor}")
    planned = (source.plan.variants, source.plan.heads)
    labels = Relabelling.of_rows(source.rows, factor, request.head, planned, str(source.path))
    # Whole runs are looked at for copies: under one head alone, different runs may well score the same.
    rows, copied = clean_rows(source.rows)
    heads = sorted(set(rows["head"]) - {NO_HEAD})
    rows, source = labels.rows(rows), seen_by(source, labels)
    plan, noun = source.plan, NOUNS[factor]
    if rows.empty:
        raise UsageError(f"{source.path}: no score is left to compare; {'; '.join(copied)}")
    present = sorted(rows.variant.unique())
    if len(present) < 2:
        instead = f"; --factor head compares its {len(heads)} heads" if factor == "ffn" and heads[1:] else ""
        raise UsageError(
            f"{source.path} has scores of one {noun} only ({present[0]}); a comparison needs two or "
            f"more{instead}"
        )
    baseline = request.baseline or plan.baseline or default_baseline(factor, present)
    baseline = find_level(factor, baseline, present, "baseline (choose one with --baseline)")
    variants = (baseline, *(v for v in ordered(present, plan.variants) if v != baseline))
    texts = (*plan.contrasts, *request.contrasts)
    contrasts = list(dict.fromkeys(parse_contrast(text, variants, baseline, factor) for text in texts))
    pairs = [Contrast((name,), (baseline,)) for name in variants[1:]]
    families = tuple(ordered(rows.family.unique(), plan.families))
    scores, notes = run_scores(rows)
    if scores.empty:
        raise UsageError(f"{source.path}: no benchmark has a task that most of its runs share")
    benchmarks = ordered_benchmarks(scores.benchmark.unique(), plan.benchmarks)
    inference = _inference(request, plan)
    tables = [ArmTable.of_scores(scores[scores.benchmark == name], name) for name in benchmarks]
    comparisons = [
        c for arms in tables for c in compare_with_baseline(arms, baseline, variants[1:], inference)
    ]
    items = analyse_items(source, scores, [*pairs, *contrasts], benchmarks, inference)
    outliers, means = find_outliers(scores), means_over_parts(rows)
    return Analysis(
        source=source,
        request=request,
        baseline=baseline,
        inference=inference,
        families=families,
        variants=variants,
        benchmarks=benchmarks,
        runs=scores,
        arms=_summarise(scores, ["benchmark", "family", "variant"]),
        tasks=_summarise_tasks(rows),
        comparisons=tuple(comparisons),
        contrasts=tuple(_contrasts(tables, contrasts, inference)),
        parts=tuple(compare_parts(rows, baseline, variants[1:], inference)),
        power=tuple(_power(tables, pairs, comparisons, inference)),
        sensitivities=tuple(sensitivities(tables, means, outliers, baseline, variants[1:], inference)),
        items=items,
        part_means=_summarise(means, ["benchmark", "num_parts", "family", "variant"]),
        source_study=_source_study(source, request, [*contrasts, *pairs]),
        missing=_missing(source, scores, variants, families, benchmarks),
        warnings=(
            *source.notes,
            *copied,
            *notes,
            *range_notes(rows),
            *balance_notes(scores, baseline),
            *outlier_notes(outliers),
            *_item_notes(rows),
            *items.notes,
            *flat_notes(scores),
            *_chance_notes(scores),
        ),
    )


def _inference(request: Request, plan: Plan) -> Inference:
    """What was asked for now goes before what the study says, and that before the default."""
    margin = next((m for m in (request.margin, plan.margin) if m is not None), DEFAULT_MARGIN)
    if not (math.isfinite(margin) and margin > 0):
        raise UsageError(f"margin {margin} is not a positive number of percentage points")
    return Inference(margin=margin, paired=request.paired or plan.paired, bootstrap=request.bootstrap)


def _summarise(scores: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    return scores.groupby(keys)["score"].agg(n="count", mean="mean", sd="std").reset_index()


def _summarise_tasks(rows: pd.DataFrame) -> pd.DataFrame:
    in_percent = is_percent(rows["metric"])
    # A causal model's perplexity and a masked one's have names of their own: all of them.
    primary = pd.concat([task_scores(rows[in_percent]), rows[~in_percent]])
    keys = ["benchmark", "group", "task", "metric", "family", "variant"]
    return (
        primary.groupby(keys)
        .agg(n=("score", "count"), mean=("score", "mean"), sd=("score", "std"), n_items=("n_items", "max"))
        .reset_index()
    )


def _contrasts(tables, contrasts: Sequence[Contrast], inference: Inference):
    for contrast in contrasts:
        for arms in tables:
            for family in scopes(arms.families):
                yield compare_arms(arms, contrast, family, inference)


def _power(
    tables: Sequence[ArmTable],
    pairs: Sequence[Contrast],
    comparisons: Sequence[Comparison],
    inference: Inference,
):
    """Work out the power of every estimable primary comparison."""
    for arms in tables:
        scope = scopes(arms.families)[0]
        primary = [c for c in comparisons if (c.benchmark, c.family) == (arms.benchmark, scope)]
        for pair, comparison in zip(pairs, primary, strict=True):
            if comparison.p is not None:
                yield power_of(arms, pair, comparison, inference)


def _source_study(source: Source, request: Request, contrasts: Sequence[Contrast]) -> Intervals:
    if request.method != "source-study":
        return {}
    scores, _ = run_scores(source.rows)  # copies included, as the study knew of none
    return source_study_intervals(scores, source.run_order, contrasts)


def _missing(source: Source, scores: pd.DataFrame, variants, families, benchmarks) -> pd.DataFrame:
    """List the runs of the study without a score, seeds of one family and variant together."""
    plan = source.plan
    # Perplexity is measured and not compared.
    unscaled = set(source.rows.benchmark) - set(benchmarks)
    found = set(zip(scores.benchmark, scores.family, scores.variant, scores.seed, strict=True))
    columns = ["benchmark", "family", "variant", "seeds"]
    missing = []
    for benchmark in ordered_benchmarks({*benchmarks, *plan.benchmarks} - unscaled, plan.benchmarks):
        for family in ordered({*families, *plan.families}, plan.families):
            for variant in ordered({*variants, *plan.variants}, variants):
                seeds = [s for s in plan.seeds if (benchmark, family, variant, s) not in found]
                if seeds:
                    missing.append((benchmark, family, variant, ", ".join(map(str, seeds))))
    return pd.DataFrame(missing, columns=columns)


def _chance_notes(scores: pd.DataFrame) -> list[str]:
    """Name benchmarks on which nothing was learnt: there, being equal says nothing."""
    near: dict[float, list[str]] = {}
    cells = scores.groupby(["benchmark", "family", "variant"])["score"].mean()
    for benchmark, means in cells.groupby(level="benchmark"):
        chance = chance_of_pairs(str(benchmark))
        if chance is not None and (means - chance).abs().max() < NEAR_CHANCE:
            near.setdefault(chance, []).append(str(benchmark))
    return [
        f"{', '.join(names)}: every cell scores within {NEAR_CHANCE:g} points of chance ({chance:g}%), where "
        "a difference or an equivalence says little about what was learnt"
        for chance, names in near.items()
    ]


def _item_notes(rows: pd.DataFrame) -> list[str]:
    """Say where runs were scored on different numbers of items: their spread is not seeds alone."""
    items = task_scores(rows).groupby(["benchmark", "task"])["n_items"].agg(["min", "max"])
    uneven = items[items["min"] != items["max"]].reset_index()
    return [
        f"{row.benchmark} {row.task}: runs were scored on {row['min']} to {row['max']} items"
        for _, row in uneven.iterrows()
    ]
