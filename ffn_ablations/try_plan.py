"""The largest study that fits into some minutes, of measured seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from base.errors import UsageError

RESERVE = 0.2
"""Of the minutes, for processes, the report, and what takes longer than it was measured."""
FEWEST_SEEDS, SEEDS, MOST_SEEDS = 3, 8, 20
"""Below the first nothing is run; below the second no larger size, as it would tell less."""
LARGER_TAKES = 6
"""Times as long as a run of the size before: what fits less often is not measured."""


EMBEDDED_SIZES = {"tiny": 317}
TEXT_SIZES = {"mini-gpt-neo": 1000, "small-gpt-neo": 3200}
STEPS = EMBEDDED_SIZES | TEXT_SIZES
"""Shipped configs with their recipes (docs/recipes.md); fewer steps may not leave the unigram plateau.

Its rate is everybody's: with a choice of rates at two seeds each, that choice was 83% of the variance.
"""


@dataclass(frozen=True)
class Plan:
    """A study that fits."""

    size: str
    seeds: int
    seconds: float


def available(minutes: float, spent: float) -> float:
    """Return the seconds that a study may take, of a user's minutes of which so many seconds are gone."""
    return (1 - RESERVE) * 60 * minutes - spent


def choose(
    seconds: Mapping[str, float], num_arms: int, minutes: float, workers: int, spent: float = 0.0
) -> Plan:
    """Choose the largest size at which eight seeds fit, else the smallest with as many as do.

    Args:
        seconds: Of a run on average, by sizes that grow.
        num_arms: Variants.
        minutes: What a user gives.
        workers: Runs at the same time.
        spent: Seconds of the minutes that are gone.

    Raises:
        UsageError: If not even three seeds of the smallest fit; names the minutes.
    """
    smallest, most = next(iter(seconds)), available(minutes, spent)
    for size in reversed([*seconds]):
        for seeds in range(MOST_SEEDS, (FEWEST_SEEDS if size == smallest else SEEDS) - 1, -1):
            needed = study_seconds(seconds[size], seeds * num_arms, workers)
            if needed <= most:
                return Plan(size, seeds, needed)
    num_runs = FEWEST_SEEDS * num_arms
    least = study_seconds(seconds[smallest], num_runs, workers)
    raise UsageError(
        f"{FEWEST_SEEDS} seeds of {smallest}, {num_runs} runs, do not fit into {minutes:g} minutes; give "
        f"--minutes {math.ceil((least + spent) / (1 - RESERVE) / 60)}, more --workers, or fewer variants to "
        "--against"
    )


def study_seconds(of_a_run: float, num_runs: int, workers: int) -> float:
    """Forecast a study, runs side by side."""
    return math.ceil(num_runs / workers) * of_a_run
