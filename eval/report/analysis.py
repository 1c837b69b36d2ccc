"""Everything a report says, computed once from a source and before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from eval.aggregate import run_scores, task_scores
from eval.contrasts import parse_contrast
from eval.report.sources import RunFacts, Source
from eval.significance import (
    CONFIDENCE,
    NO_SPREAD,
    Comparison,
    cells_of,
    compare_cells,
    compare_with_baseline,
    scopes,
)
from ffn_variants.errors import UsageError, unknown_name

DEFAULT_BASELINE = "gelu"
# Benchmarks in the order in which readers of this field expect them; any other follows by name.
BENCHMARK_ORDER = (
    "blimp",
    "babylm23",
    "blimp-fast",
    "embedded-pairs",
    "entity-tracking",
    "wug",
    "perplexity",
    "glue",
    "embedded-glue",
)
PAIR_BENCHMARKS = frozenset(BENCHMARK_ORDER[:4])  # two sentences each, so chance is 50%


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """Scores, comparisons and what is missing, ready to be written down."""

    source: Source
    baseline: str
    margin: float | None
    confidence: float
    families: tuple[str, ...]
    variants: tuple[str, ...]
    """The baseline first."""
    benchmarks: tuple[str, ...]
    runs: pd.DataFrame
    """run_id, family, variant, seed, benchmark, score: one row per run and benchmark."""
    cells: pd.DataFrame
    """benchmark, family, variant, n, mean, sd; sd over seeds, nan for one run."""
    tasks: pd.DataFrame
    """benchmark, group, task, metric, family, variant, n, mean, sd, n_items."""
    comparisons: tuple[Comparison, ...]
    contrasts: tuple[Comparison, ...]
    parts: tuple[Comparison, ...] = ()
    """Every variant against the baseline on every phenomenon or task, averaged over families."""
    missing: pd.DataFrame
    """benchmark, family, variant, seeds: cells without a score."""
    notes: tuple[str, ...]

    @property
    def others(self) -> tuple[str, ...]:
        """Every variant but the baseline."""
        return self.variants[1:]

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


def analyse(
    source: Source,
    baseline: str | None = None,
    contrasts: Sequence[str] = (),
    margin: float | None = None,
    confidence: float = CONFIDENCE,
) -> Analysis:
    """Compute what a report says.

    Args:
        source: Scores and their plan.
        baseline: The variant that others are compared with; None takes the study's, else gelu.
        contrasts: Further comparisons such as ``relu+silu - prelu+swish``.
        margin: Percentage points called negligible before the results; None takes the study's.
        confidence: Level of the intervals.

    Raises:
        UsageError: For an unknown baseline or contrast, or a single variant.
    """
    rows, plan = source.rows, source.plan
    present = sorted(rows.variant.unique())
    if len(present) < 2:
        raise UsageError(
            f"{source.path} has scores of one variant only ({present[0]}); a comparison needs two or more"
        )
    baseline = baseline or plan.baseline or DEFAULT_BASELINE
    if baseline not in present:
        raise unknown_name("baseline (choose one with --baseline)", baseline, present)
    variants = (baseline, *(v for v in _ordered(present, plan.variants) if v != baseline))
    families = tuple(_ordered(rows.family.unique(), plan.families))
    scores, notes = run_scores(rows)
    if scores.empty:
        raise UsageError(f"{source.path}: no benchmark has a task that most of its runs share")
    benchmarks = tuple(_ordered(scores.benchmark.unique(), BENCHMARK_ORDER))
    comparisons = compare_with_baseline(scores, baseline, variants[1:], confidence)
    return Analysis(
        source=source,
        baseline=baseline,
        margin=plan.margin if margin is None else margin,
        confidence=confidence,
        families=families,
        variants=variants,
        benchmarks=benchmarks,
        runs=scores,
        cells=_summarise(scores, ["benchmark", "family", "variant"]),
        tasks=_summarise_tasks(rows),
        comparisons=tuple(sorted(comparisons, key=lambda c: benchmarks.index(c.benchmark))),
        contrasts=tuple(_contrasts(scores, contrasts, variants, baseline, benchmarks, confidence)),
        missing=_missing(source, scores, variants, families, benchmarks),
        notes=(*source.notes, *notes, *_item_notes(rows), *_flat_notes(scores)),
    )


def _ordered(names, wanted: Sequence[str]) -> list[str]:
    """Sort names by their place in ``wanted``, the unlisted ones after them by name."""
    places = {name: place for place, name in enumerate(wanted)}
    return sorted(map(str, names), key=lambda name: (places.get(name, len(places)), name))


def _summarise(scores: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    return scores.groupby(keys)["score"].agg(n="count", mean="mean", sd="std").reset_index()


def _summarise_tasks(rows: pd.DataFrame) -> pd.DataFrame:
    primary = task_scores(rows)
    keys = ["benchmark", "group", "task", "metric", "family", "variant"]
    return (
        primary.groupby(keys)
        .agg(n=("score", "count"), mean=("score", "mean"), sd=("score", "std"), n_items=("n_items", "max"))
        .reset_index()
    )


def _contrasts(scores, contrasts, variants, baseline, benchmarks, confidence):
    for text in contrasts:
        contrast = parse_contrast(text, variants, baseline)
        for benchmark in benchmarks:
            cells = cells_of(scores, benchmark)
            families = sorted({family for family, _ in cells})
            for family in scopes(families):
                yield compare_cells(cells, contrast, benchmark, family, families, confidence)


def _missing(source: Source, scores: pd.DataFrame, variants, families, benchmarks) -> pd.DataFrame:
    """List the planned cells without a score, seeds of one family and variant together."""
    plan = source.plan
    # Perplexity is measured and not compared.
    unscaled = set(source.rows.benchmark) - set(benchmarks)
    found = set(zip(scores.benchmark, scores.family, scores.variant, scores.seed, strict=True))
    columns = ["benchmark", "family", "variant", "seeds"]
    missing = []
    for benchmark in _ordered({*benchmarks, *plan.benchmarks} - unscaled, BENCHMARK_ORDER):
        for family in _ordered({*families, *plan.families}, plan.families):
            for variant in _ordered({*variants, *plan.variants}, variants):
                seeds = [s for s in plan.seeds if (benchmark, family, variant, s) not in found]
                if seeds:
                    missing.append((benchmark, family, variant, ", ".join(map(str, seeds))))
    return pd.DataFrame(missing, columns=columns)


def _item_notes(rows: pd.DataFrame) -> list[str]:
    """Say where runs were scored on different numbers of items: their spread is not seeds alone."""
    items = task_scores(rows).groupby(["benchmark", "task"])["n_items"].agg(["min", "max"])
    uneven = items[items["min"] != items["max"]].reset_index()
    return [
        f"{row.benchmark} {row.task}: runs were scored on {row['min']} to {row['max']} items"
        for _, row in uneven.iterrows()
    ]


def _flat_notes(scores: pd.DataFrame) -> list[str]:
    """Name cells whose runs all scored the same: often models that give one answer to everything."""
    cells = _summarise(scores, ["benchmark", "family", "variant"])
    flat = cells[(cells.n > 1) & (cells.sd < NO_SPREAD)]
    return [
        f"{benchmark}: all runs of {family} {', '.join(group.variant)} score exactly {mean:.1f}, "
        "so these cells add no uncertainty to an interval; do the models tell the answers apart at all?"
        for (benchmark, family, mean), group in flat.groupby(["benchmark", "family", "mean"])
    ]
