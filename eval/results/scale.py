"""Percentages that were written as fractions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from base.errors import UsageError
from eval.results.declarations import Scale
from eval.results.outcome import Outcome

ARM = ["benchmark", "family", "variant"]


def in_percent(
    tasks: pd.DataFrame, outcomes: Mapping[Any, Outcome], scale: Scale | None, origin: str
) -> pd.DataFrame:
    """Return scores of which those that count as percentages are so.

    Args:
        tasks: What ``comparable_scores`` returns of a table that somebody wrote.
        outcomes: What the scores of each benchmark are.
        scale: What the user said they are; None where nothing was said.
        origin: Where they come from, named in errors.

    Raises:
        UsageError: For an arm that looks like fractions where nobody said what it is, or a fraction above 1.
    """
    expected = tasks["benchmark"].map(lambda name: outcomes[name].unit in ("percent", "correlation"))
    chosen = tasks[expected.astype(bool)]
    if scale == "percent" or chosen.empty:
        return tasks
    if scale == "fraction":
        largest = chosen.loc[chosen["score"].abs().idxmax()]
        if abs(largest.score) > 1:
            raise UsageError(
                f"{origin}: {largest.benchmark} of {largest.family} {largest.variant} is {largest.score:g}, "
                "which is no fraction; leave out --scale fraction, or write all scores alike"
            )
        return tasks.assign(score=tasks["score"].where(~expected.astype(bool), 100 * tasks["score"]))
    largest_of = chosen.assign(size=chosen["score"].abs()).groupby(ARM)["size"].max()
    small = largest_of[(largest_of <= 1) & (largest_of > 0)]
    if len(small):
        benchmark, family, variant = small.index[0]
        raise UsageError(
            f"{origin}: no score of {family} {variant} on {benchmark} is above 1; are these fractions? "
            "Scores are percentages: add --scale fraction to have all of them times 100, or --scale "
            "percent if they are that small"
        )
    return tasks
