"""How long trainings took, and how much that varies over runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from eval.report.inputs.run_facts import RunFacts
from eval.report.inputs.sources import Source
from eval.significance.axes import Family, Level, plain

SECONDS_AN_HOUR = 3600
COLUMNS = ["family", "variant", "n", "mean_s", "sd_s"]


def training_times(facts: Sequence[RunFacts]) -> pd.DataFrame:
    """Summarise the wall time of pretraining for each family and variant, and over all runs.

    Args:
        facts: Of a study's runs; those without a time are left out.

    Returns:
        Columns family, variant, n, mean_s, sd_s, in the order in which the arms come; seconds, sd with n - 1
        and nan for one run. The last row, of all runs, names no family and no variant; it is absent where
        there is one arm.
    """
    arms: dict[tuple[Family, Level], list[float]] = {}
    for run in facts:
        if run.train_hours is not None:
            arms.setdefault((run.family, run.variant), []).append(SECONDS_AN_HOUR * run.train_hours)
    rows: list[tuple[object, ...]] = [(*arm, *_summary(seconds)) for arm, seconds in arms.items()]
    if len(arms) > 1:
        rows.append(("", "", *_summary([second for seconds in arms.values() for second in seconds])))
    return pd.DataFrame(rows, columns=COLUMNS)


def fastest(source: Source, runs: Sequence[RunFacts]) -> float | None:
    """Tokens a second of an arm's fastest run: others had to share the machine with something else.

    Runs of a tuning count too, as they are many and were made at other times. Their places name the tuned
    value beside those of the main runs.

    Args:
        source: The study of the runs.
        runs: Those of one arm.

    Returns:
        None where no speed is known.
    """
    aside = [x for stage in source.stages.values() for x in stage]
    alike = [
        other
        for run in runs[:1]
        for other in aside
        if (plain(other.family), other.variant) == (plain(run.family), run.variant)
        and set(other.places) >= set(run.places)
    ]
    return max((x.tokens_per_s for x in (*runs, *alike) if x.tokens_per_s), default=None)


def _summary(seconds: Sequence[float]) -> tuple[int, float, float]:
    sd = float(np.std(seconds, ddof=1)) if len(seconds) > 1 else float("nan")
    return len(seconds), float(np.mean(seconds)), sd


def clock(seconds: float) -> str:
    """Write seconds as ``1h42m41s``, without what would be a leading zero; below a minute with a decimal."""
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m{rest:02d}s" if hours else f"{minutes}m{rest:02d}s"
