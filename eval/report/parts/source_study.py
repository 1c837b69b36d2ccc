"""The source study's own intervals, where ``--source-study`` asks for them; no verdict rests on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from eval.report.analysis import Analysis
from eval.report.document.markdown import signed, table
from eval.report.part import Page, Part, Section
from eval.results.rows import RunKey
from eval.results.run_scores import run_scores
from eval.significance.axes import Benchmark, Level
from eval.significance.contrasts import Contrast
from eval.significance.statistics.source_study import SourceStudyInterval, source_study_interval

Intervals = Mapping[tuple[Benchmark, Contrast], SourceStudyInterval]


def compute(analysis: Analysis) -> Intervals | None:
    """Return the intervals of the contrasts asked for, then of every variant with the baseline."""
    if not analysis.request.source_study:
        return None
    scores, _ = run_scores(analysis.source.rows)  # copies included, as the study knew of none
    pairs = [Contrast((name,), (analysis.baseline,)) for name in analysis.others]
    contrasts = dict.fromkeys([*(c.contrast for c in analysis.contrasts), *pairs])
    return source_study_intervals(scores, analysis.source.run_order, list(contrasts))


def source_study_intervals(
    scores: pd.DataFrame, order: Sequence[RunKey], contrasts: Sequence[Contrast]
) -> Intervals:
    """Repeat the study's interval for every benchmark and contrast whose variants have runs.

    Args:
        scores: What ``run_scores`` returns.
        order: Runs as they stand in the table: the draws depend on it.
        contrasts: Variants of a group are put one after another as they are named; all families together.
    """
    places = {key: place for place, key in enumerate(order)}
    keys = zip(scores.family, scores.variant, scores.seed, strict=True)
    in_order = scores.assign(place=[places[key] for key in keys]).sort_values("place")
    intervals = {}
    for benchmark in sorted(scores.benchmark.unique()):
        of_benchmark = in_order[in_order.benchmark == benchmark]
        runs: dict[Level, np.ndarray] = {
            name: x.to_numpy(float) for name, x in of_benchmark.groupby("variant").score
        }
        for contrast in contrasts:
            if runs.keys() >= {*contrast.plus, *contrast.minus}:
                groups = (np.concatenate([runs[x] for x in side]) for side in (contrast.plus, contrast.minus))
                intervals[benchmark, contrast] = source_study_interval(*groups)
    return intervals


def section(analysis: Analysis, intervals: Intervals, page: Page) -> Section:
    """The intervals, and what is wrong with them."""
    rows = [
        [str(benchmark), f"`{contrast}`", signed(x.estimate, 3), f"[{x.low:+.3f}, {x.high:+.3f}]"]
        for (benchmark, contrast), x in intervals.items()
    ]
    body = (
        "The study pools the families and takes the percentiles of 10,000 resampled differences, both "
        "groups drawn with one generator state. In simulation its nominal 95% interval covers 83 to 86% at "
        "five or six seeds. The difference is the mean over the resamples, as the study printed it. Both "
        "depend on the order of the table's rows and of the names in a contrast.\n\n"
        + table(["metric", "contrast", "difference", "nominal 95%"], rows)
    )
    return Section(title="The source study's method", summary="no verdict rests on it", body=body)


def tables(analysis: Analysis, intervals: Intervals) -> Mapping[str, pd.DataFrame]:
    """Return every interval."""
    records = ({"benchmark": b, "contrast": c, **x._asdict()} for (b, c), x in intervals.items())
    return {"source_study": pd.DataFrame(records)}


PART = Part(name="source-study", compute=compute, section=section, tables=tables)
