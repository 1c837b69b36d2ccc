"""The source study's own intervals of a table, and the section that says what they are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from eval.report.document.markdown import signed, table
from eval.results.rows import RunKey
from eval.significance.axes import Benchmark, Level
from eval.significance.contrasts import Contrast
from eval.significance.statistics.source_study import SourceStudyInterval, source_study_interval

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
