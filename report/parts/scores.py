"""What every variant scores: means and spreads over seeds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from report.analysis import Analysis, decimals_of
from report.document.markdown import arrow, spread, table
from report.document.names import family_label, title
from report.figures.seeds import draw_seeds
from report.part import Draw, Page, Part, Section
from report.significance.axes import Benchmark, Family, Level
from report.verdicts.ranking import by_standing
from scores.run_scores import SINGLE_TASK
from scores.suites import SUITES


def compute(analysis: Analysis) -> bool:
    """Every report has scores."""
    return True


def section(analysis: Analysis, has_scores: bool, page: Page) -> Section:
    """Mean and spread over seeds in numbers, and every seed as a dot."""
    order = by_standing(analysis)
    rows = [
        [family_label(family), f"`{variant}`", *(score(analysis, name, family, variant) for name in order)]
        for family in analysis.families
        for variant in analysis.variants
    ]
    header = [analysis.stratum, analysis.noun, *(_heading(analysis, name) for name in order)]
    legend = (
        "Mean ± standard deviation (runs) over seeds. A mean over tasks weighs each task alike. Every seed's "
        "score is in tables/seeds.csv."
    )
    body = "\n\n".join(filter(None, [table(header, rows), legend, page.figure("seeds")]))
    return Section(title="Scores", summary="", body=body)


def _heading(analysis: Analysis, benchmark: Benchmark) -> str:
    """Name a metric, the tasks that it is a mean of, its unit and direction."""
    metric = analysis.metric(benchmark)
    unit = {"percent": "%", "correlation": "x 100"}.get(metric.unit or "", metric.unit)
    parts = filter(None, [title(benchmark), _tasks(analysis, benchmark), unit])
    return f"{', '.join(parts)} {arrow(metric)}"


def _tasks(analysis: Analysis, benchmark: Benchmark) -> str:
    """Say what a benchmark's score is a mean of; empty where the source does not tell."""
    tasks = analysis.tasks[analysis.tasks.benchmark == benchmark].task.unique()
    if len(tasks) < 2:
        return "" if set(tasks) <= {SINGLE_TASK, "validation"} else f"task {tasks[0]}"
    unit = SUITES[benchmark.name].noun if benchmark.name in SUITES else "tasks"
    return f"mean of {len(tasks)} {unit}"


def score(analysis: Analysis, benchmark: Benchmark, family: Family, variant: Level) -> str:
    """Write the mean and standard deviation of an arm's runs, and their number; - without one."""
    runs = analysis.tables[benchmark].runs.get((family, variant), ())
    if not len(runs):
        return "-"
    digits = decimals_of(analysis, benchmark, family)
    sd = float(np.std(runs, ddof=1)) if len(runs) > 1 else np.nan
    return f"{np.mean(runs):.{digits}f}{spread(sd, digits)} ({len(runs)})"


def figures(analysis: Analysis, has_scores: bool) -> Mapping[str, Draw]:
    """Draw every seed."""
    return {"seeds": partial(draw_seeds, analysis)}


def tables(analysis: Analysis, has_scores: bool) -> Mapping[str, pd.DataFrame]:
    """Return means, every seed's score, and means by task and metric."""
    seeds = analysis.runs[["run_id", "family", "variant", "seed", "benchmark", "score"]]
    return {"scores": analysis.arms, "seeds": seeds, "tasks": analysis.tasks}


PART = Part(name="scores", compute=compute, section=section, figures=figures, tables=tables)
