"""What a report says beside its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eval.report.analysis import Analysis
from eval.report.document.markdown import escape
from eval.report.document.names import figure_names
from eval.results.run_scores import SINGLE_TASK
from eval.significance.axes import Benchmark, Family
from eval.suites.registry import SUITES


@dataclass(frozen=True, kw_only=True)
class Context:
    """How a report was made, and which figures it has."""

    command: str
    versions: Mapping[str, str]
    figures: Mapping[str, str]
    """Figure file name without suffix, mapped to its alt text."""

    def figure(self, name: str) -> str:
        """Link a figure, or nothing if it was not drawn."""
        return f"![{escape(self.figures[name])}](figures/{name}.svg)" if name in self.figures else ""

    def figure_of(self, kind: str, analysis: Analysis, benchmark: Benchmark) -> str:
        """Link one kind of figure of a benchmark, or nothing if it was not drawn."""
        return self.figure(figure_names(kind, analysis.benchmarks)[benchmark])


def decimals_of(analysis: Analysis, benchmark: Benchmark, family: Family) -> int:
    """Return the decimals of a family's scores: one in percent, else as many as their spread lets count."""
    if analysis.outcome(benchmark).is_percentage:
        return 1
    return next((comparison.digits for comparison in analysis.of(benchmark, family)), 1)


def mean_name(analysis: Analysis, benchmark: Benchmark) -> str:
    """Say what a benchmark's score is a mean of; empty where the source does not tell."""
    tasks = analysis.tasks[analysis.tasks.benchmark == benchmark].task.unique()
    if len(tasks) < 2:
        return "" if set(tasks) <= {SINGLE_TASK, "validation"} else f"task {tasks[0]}"
    unit = SUITES[benchmark.name].noun if benchmark.name in SUITES else "tasks"
    return f"mean of {len(tasks)} {unit}"
