"""The largest study that fits into some minutes, of measured seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from base.errors import UsageError

RESERVE = 0.15
"""Of the minutes, for the report and what takes longer than it was measured."""
FEWEST_SEEDS, SEEDS, MOST_SEEDS = 3, 8, 20
"""Below the first nothing is run; below the second no larger size, as it would tell less."""
LARGER_TAKES = 6
"""Times as long as a run of the size before: what fits less often is not measured."""


@dataclass(frozen=True)
class Size:
    """A shipped config with its recipe (docs/recipes.md); fewer steps may not leave the unigram plateau.

    Its rate is everybody's: with a choice of rates at two seeds each, that choice was 83% of the variance.
    """

    steps: int
    evaluations: int


EMBEDDED_SIZES = {"tiny": Size(317, 10)}
TEXT_SIZES = {"mini-gpt-neo": Size(1000, 10), "small-gpt-neo": Size(3200, 10)}
SIZES = EMBEDDED_SIZES | TEXT_SIZES


@dataclass(frozen=True)
class Seconds:
    """What one arm takes at one size: to begin and end a run, for a step, for an evaluation."""

    start: float
    step: float
    evaluation: float


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
    measured: Mapping[str, Sequence[Seconds]], minutes: float, workers: int, spent: float = 0.0
) -> Plan:
    """Choose the largest size at which eight seeds fit, else the smallest with as many as do.

    Args:
        measured: Seconds of every arm, by sizes that grow.
        minutes: What a user gives.
        workers: Runs at the same time.
        spent: Seconds of the minutes that are gone.

    Raises:
        UsageError: If not even three seeds of the smallest fit; names the minutes.
    """
    smallest, most = next(iter(measured)), available(minutes, spent)
    for size in reversed(list(measured)):
        for seeds in range(MOST_SEEDS, (FEWEST_SEEDS if size == smallest else SEEDS) - 1, -1):
            seconds = study_seconds(measured[size], size, seeds, workers)
            if seconds <= most:
                return Plan(size, seeds, seconds)
    least = study_seconds(measured[smallest], smallest, FEWEST_SEEDS, workers)
    raise UsageError(
        f"{FEWEST_SEEDS} seeds of {smallest}, {FEWEST_SEEDS * len(measured[smallest])} runs, do not fit into "
        f"{minutes:g} minutes; give --minutes {math.ceil((least + spent) / (1 - RESERVE) / 60)}, more "
        "--workers, or fewer variants to --against"
    )


def study_seconds(arms: Sequence[Seconds], size: str, seeds: int, workers: int) -> float:
    """Forecast a study, runs side by side."""
    steps, evaluations = SIZES[size].steps, SIZES[size].evaluations
    run = sum(arm.start + steps * arm.step + evaluations * arm.evaluation for arm in arms) / len(arms)
    return math.ceil(seeds * len(arms) / workers) * run


def may_fit_larger(arms: Sequence[Seconds], size: str, seconds: float, workers: int) -> bool:
    """Whether the size after one that was measured is worth measuring, where a study may take so long."""
    return LARGER_TAKES * study_seconds(arms, size, SEEDS, workers) <= seconds
