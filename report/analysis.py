"""What a report says, computed from a source before anything is written (``report.compute``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from report.inputs.chosen_rates import Tuned
from report.inputs.run_facts import RunFacts
from report.inputs.sources import Source
from report.request import Request
from report.significance.axes import Benchmark, Family
from report.significance.multiple_comparisons import MultipleComparisons
from report.verdicts.failed_runs import FailureCount
from report.verdicts.findings import Findings
from scores.metrics import Metric, find_direction
from scores.suites import Better


@dataclass(frozen=True, kw_only=True)
class Analysis(Findings):
    """Findings, the scores that they come from, what stands beside them, and what is wrong or missing."""

    source: Source
    """As seen by the factor whose levels are compared."""
    source_as_read: Source
    request: Request
    metrics: Mapping[Benchmark, Metric]
    """What the scores of each benchmark are."""
    runs: pd.DataFrame
    """run_id, family, variant, seed, benchmark, score: one row per run and benchmark."""
    rows: pd.DataFrame
    """Cleaned rows, a score of a task each, with every metric."""
    scores_of_tasks: pd.DataFrame
    """Those that are compared: one metric a task."""
    arms: pd.DataFrame
    """benchmark, family, variant, n, mean, sd; sd over seeds, nan for one run."""
    tasks: pd.DataFrame
    """benchmark, group, task, metric, family, variant, n, mean, sd, n_items."""
    claims_made: MultipleComparisons
    """What was compared and how, to be compared again without some runs."""
    failures: tuple[FailureCount, ...]
    """Of a study's runs; empty where none failed."""
    missing: pd.DataFrame
    """benchmark, family, variant, seeds: arms that lack scores of these seeds."""
    warnings: tuple[str, ...]
    tuned: Tuned | None = None
    """What a study's tuning found; None where it was not tuned."""
    parts: tuple[Any, ...] = ()
    """What the report is made of (``report.part.Part``), in the order of the page."""
    results: Mapping[str, Any] = field(default_factory=dict)
    """What each part came to, by its name; parts with nothing to say have none (``report.part``)."""

    @property
    def told(self) -> list[tuple[Any, Any]]:
        """The parts that have something to say, each with its result."""
        return [(part, self.results[part.name]) for part in self.parts if part.name in self.results]

    @property
    def not_compared(self) -> list[Benchmark]:
        """Benchmarks without a unit: measured, and in no mean and no test."""
        return [name for name in self.tasks.benchmark.unique() if name not in self.benchmarks]

    @property
    def facts(self) -> tuple[RunFacts, ...]:
        """What the run folders tell beside the scores; empty for a table."""
        return self.source.facts

    def metric(self, benchmark: Benchmark) -> Metric:
        """Return what a benchmark's scores are."""
        return self.metrics[benchmark]

    def direction(self, benchmark: Benchmark, metric: str) -> Better | None:
        """Return which scores of a metric are better, which may stand beside the one that is compared."""
        compared = self.metrics.get(benchmark)
        if compared is not None and metric in compared.metrics:
            return compared.better
        return find_direction(benchmark.name, metric, self.request.declared.over(self.source.declared))


def decimals_of(analysis: Analysis, benchmark: Benchmark, family: Family) -> int:
    """Return the decimals of a family's scores: one in percent, else as many as their spread lets count."""
    if analysis.metric(benchmark).is_percentage:
        return 1
    return next((comparison.digits for comparison in analysis.of(benchmark, family)), 1)
