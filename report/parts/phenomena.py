"""Differences by phenomenon, or by task where a benchmark has no phenomena, and every task's scores.

They are described and not tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from report.analysis import Analysis
from report.document.markdown import ARROWS, details, difference, family_label, table, title, unit_name
from report.part import Page, Part, Section
from report.parts.comparisons import comparison_table
from report.significance.arms import ArmTable, Key, arms_in_order
from report.significance.axes import Benchmark
from report.significance.comparison import Comparison, compare_arms
from report.significance.factor import Contrast
from report.verdicts.findings import by_standing
from scores.metrics import Metric
from scores.run_scores import SINGLE_TASK, decimals
from scores.suites import HELD_OUT

SIZES = ("benchmark", "part", "contrast", "family", "estimate", "standard_error", "df", "unit", "better",
         "num_runs_plus", "num_runs_minus")  # fmt: skip
"""Columns of differences that are not tested."""
Differences = Mapping[Benchmark, tuple[Comparison, ...]]
"""Every variant and the baseline on every part, averaged over families, where there are several parts."""


def compute(analysis: Analysis) -> Differences | None:
    """Compare on every part; None where no benchmark names its tasks."""
    if not _with_tasks(analysis):
        return None
    tables = part_tables(part_scores(analysis.scores_of_tasks), analysis.metrics)
    contrasts = [Contrast((name,), (analysis.baseline,)) for name in analysis.others]
    return {
        benchmark: tuple(
            compare_arms(arms, contrast, arms.scopes()[0], analysis.inference)
            for arms in tables[benchmark]
            for contrast in contrasts
        )
        for benchmark in by_standing(analysis)
        if benchmark in tables
    }


def _with_tasks(analysis: Analysis) -> list[Benchmark]:
    """Benchmarks that say what their tasks are, with those that are not compared."""
    with_tasks = set(analysis.tasks[analysis.tasks.task != SINGLE_TASK].benchmark)
    order = [*by_standing(analysis), *analysis.not_compared]
    return [benchmark for benchmark in order if benchmark in with_tasks and benchmark.name != HELD_OUT]


def part_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Average each run's tasks within each part of a benchmark.

    Args:
        scores: What ``comparable_scores`` returns of cleaned rows.

    Returns:
        benchmark, part, family, variant, seed, score; benchmarks of one part only are left out.
    """
    tasks = scores.groupby("benchmark")["task"].transform("nunique")
    groups = scores.groupby("benchmark")["group"].transform("nunique")
    grouped = (groups > 1) & (groups <= tasks / 2)
    scores = scores.assign(part=scores["group"].where(grouped, scores["task"]))
    num_parts = scores.groupby("benchmark")["part"].transform("nunique")
    scores = scores[(num_parts > 1) & (scores["part"] != SINGLE_TASK)]
    keys = ["benchmark", "part", "family", "variant", "seed"]
    return scores.groupby(keys)[["score"]].mean().reset_index()


def part_tables(parts: pd.DataFrame, outcomes: Mapping[Benchmark, Metric]) -> dict[Benchmark, list[ArmTable]]:
    """Return the runs of every part of every benchmark; chance may differ between parts.

    Args:
        parts: What ``part_scores`` returns.
        outcomes: What the scores of each benchmark are.
    """
    runs: dict[tuple[Benchmark, str], dict[Key, pd.Series]] = {}
    for (benchmark, part, *arm), scores in arms_in_order(parts, ["benchmark", "part", "family", "variant"]):
        runs.setdefault((benchmark, str(part)), {})[tuple(arm)] = scores
    tables: dict[Benchmark, list[ArmTable]] = {}
    for (benchmark, part), arms in runs.items():
        outcome = replace(outcomes[benchmark], chance=None)
        tables.setdefault(benchmark, []).append(ArmTable(arms, benchmark, part, outcome))
    return tables


def section(analysis: Analysis, differences: Differences, page: Page) -> Section:
    """The differences of each benchmark, then the scores of its tasks, each folded away."""
    folds = []
    for benchmark, comparisons in differences.items():
        unit = unit_name(analysis.metric(benchmark).unit) or "its own unit"
        folds.append(details(f"{title(benchmark)}: differences in {unit}", _differences(comparisons)))
    folds += [fold for benchmark in _with_tasks(analysis) for fold in _tasks(analysis, benchmark)]
    average = f", averaged over {analysis.strata}" if len(analysis.families) > 1 else ""
    text = f"Differences to `{analysis.baseline}`{average}, and means over seeds."
    if analysis.source.baselines:
        text += (
            " *Constant answer*: the score of the one answer that does best on the training set; for the "
            "tasks of lm-eval with choices, of a guess."
        )
    body = "\n\n".join([text, *folds])
    return Section(title="By phenomenon and task", summary="described, not tested", body=body)


def _differences(comparisons: Sequence[Comparison]) -> str:
    """Write a table of differences: parts down, variants across, both in their order."""
    cells: dict[str, dict[str, str]] = {}
    for c in comparisons:
        cells.setdefault(c.contrast.compared, {})[str(c.part)] = difference(c)
    frame = pd.DataFrame(cells)
    rows = [list(map(str, row)) for row in frame.itertuples(name=None)]
    return table(["", *(f"`{name}`" for name in frame.columns)], rows)


def _tasks(analysis: Analysis, benchmark: Benchmark) -> Iterator[str]:
    """Means by task and metric, tasks down and variants across, one table a family."""
    tasks = analysis.tasks[analysis.tasks.benchmark == benchmark]
    note = " (in its own unit, not compared)" if benchmark in analysis.not_compared else ""
    for family in (name for name in analysis.families if name in set(tasks.family)):
        heading = f"{title(benchmark)}, {family_label(family)}: tasks{note}"
        yield details(heading, _task_table(analysis, benchmark, tasks[tasks.family == family]))


def _task_table(analysis: Analysis, benchmark: Benchmark, tasks: pd.DataFrame) -> str:
    constants = analysis.source.baselines.get(benchmark.name, {})
    rows = []
    for (group, task, metric), arms in tasks.groupby(["group", "task", "metric"], sort=True):
        means = dict(zip(arms.variant, arms["mean"], strict=True))
        better, places = analysis.direction(benchmark, str(metric)), decimals(str(metric))
        shown = [f"{means[name]:.{places}f}" if name in means else "-" for name in analysis.variants]
        pointed = f"{str(metric).replace('_', ' ')} {ARROWS[better] if better else ''}".strip()
        constant = constants.get(str(task), {}).get(str(metric))
        rows.append([str(group), str(task), pointed, *shown, "-" if constant is None else f"{constant:.1f}"])
    header = ["group", "task", "metric", *(f"`{name}`" for name in analysis.variants), "constant answer"]
    return table(header, rows) if constants else table(header[:-1], [row[:-1] for row in rows])


def tables(analysis: Analysis, differences: Differences) -> Mapping[str, pd.DataFrame]:
    """Return every difference on a part."""
    by_benchmark = [c for benchmark in sorted(differences) for c in differences[benchmark]]
    return {"phenomena": comparison_table(by_benchmark).reindex(columns=SIZES)}


PART = Part(name="phenomena", compute=compute, section=section, tables=tables)
