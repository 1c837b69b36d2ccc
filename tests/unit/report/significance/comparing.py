"""Tables of scores, and one comparison from such, as a report makes many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from report.significance.arms import ArmTable
from report.significance.axes import with_settings
from report.significance.comparison import Comparison, Inference, compare_arms, metrics
from report.significance.data_checks import clean_rows
from report.significance.factor import Factor, Relabelling, is_paired, parse_contrast
from scores.metrics import Declared
from scores.run_scores import comparable_scores, mean_scores, normalise_rows


def table(cells: Mapping[tuple[str, str], Sequence[float]], benchmark: str = "blimp") -> pd.DataFrame:
    """One row per run: {(family, variant): scores}, seeds counted from 1."""
    rows = [
        (family, variant, seed, benchmark, score)
        for (family, variant), scores in cells.items()
        for seed, score in enumerate(scores, start=1)
    ]
    return pd.DataFrame(rows, columns=["family", "variant", "seed", "benchmark", "score"])


def compare(
    rows: pd.DataFrame,
    contrast: str,
    *,
    benchmark: str | None = None,
    family: str | None = None,
    inference: Inference | None = None,
    factor: Factor = "ffn",
    declared: Declared | None = None,
    axes: Sequence[str] = (),
) -> Comparison:
    """Compare on the benchmark, or the only one there is; ``family`` None averages over families."""
    rows, levels = with_settings(normalise_rows(rows, axes=axes), axes)
    tasks = comparable_scores(Relabelling.of_rows(rows, factor, axes=levels).rows(clean_rows(rows)[0]))
    scores, _ = mean_scores(tasks)
    (name,) = (x for x in scores.benchmark.unique() if benchmark is None or str(x) == benchmark)
    metric = metrics(tasks, declared or Declared(), [name])[name]
    arms = ArmTable.of_scores(scores[scores.benchmark == name], name, metric=metric)
    scope = next((x for x in arms.families if str(x) == family), None)
    how = inference or Inference()
    how = replace(how, paired=how.paired or is_paired(factor))
    return compare_arms(arms, parse_contrast(contrast, arms.variants(), None, factor), scope, how)
