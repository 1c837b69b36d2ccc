"""The largest study that fits into some minutes, of measured seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from base.errors import UsageError

RESERVE = 0.15
"""Of the minutes, for the report and what takes longer than it was measured."""
FEWEST_SEEDS, SEEDS, MOST_SEEDS = 3, 5, 20
"""Below the first nothing is run, below the second nothing tuned."""
TUNING_SEEDS = (101, 102)
WIDEN = 1
LARGER_TAKES = 6
"""Times as long as a run of the size before: what fits less often is not measured."""


@dataclass(frozen=True)
class Size:
    """A shipped config with its recipe (docs/recipes.md); fewer steps may not leave the unigram plateau."""

    steps: int
    evaluations: int
    learning_rate: float = 3e-3

    @property
    def rates(self) -> list[float]:
        """Learning rates that are tried where there is time."""
        return [self.learning_rate / 2, self.learning_rate, 2 * self.learning_rate]


EMBEDDED_SIZES = {"tiny": Size(317, 10)}
TEXT_SIZES = {"mini-gpt-neo": Size(1000, 20), "small-gpt-neo": Size(3200, 10)}
SIZES = EMBEDDED_SIZES | TEXT_SIZES


@dataclass(frozen=True)
class Seconds:
    """What one arm takes at one size: to begin and end a run, for a step, for an evaluation."""

    start: float
    step: float
    evaluation: float


@dataclass(frozen=True)
class Plan:
    """A study that fits; its seconds are those of a grid of rates that grows at both ends."""

    size: str
    seeds: int
    is_tuned: bool
    seconds: float


def available(minutes: float, spent: float) -> float:
    """Return the seconds that a study may take, of a user's minutes of which so many seconds are gone."""
    return (1 - RESERVE) * 60 * minutes - spent


def choose(
    measured: Mapping[str, Sequence[Seconds]], minutes: float, workers: int, spent: float = 0.0
) -> Plan:
    """Choose the largest size at which five seeds and a tuning fit, else the smallest without tuning.

    Args:
        measured: Seconds of every arm, by sizes that grow.
        minutes: What a user gives.
        workers: Runs at the same time.
        spent: Seconds of the minutes that are gone.

    Raises:
        UsageError: If not even three seeds of the smallest fit; names the minutes.
    """
    smallest, most = next(iter(measured)), available(minutes, spent)
    ways = [(size, True, SEEDS) for size in reversed(list(measured))] + [(smallest, False, FEWEST_SEEDS)]
    for size, is_tuned, fewest in ways:
        for seeds in range(MOST_SEEDS, fewest - 1, -1):
            seconds = study_seconds(measured[size], size, seeds, is_tuned, workers)
            if seconds <= most:
                return Plan(size, seeds, is_tuned, seconds)
    least = study_seconds(measured[smallest], smallest, FEWEST_SEEDS, False, workers)
    raise UsageError(
        f"{FEWEST_SEEDS} seeds of {smallest}, {FEWEST_SEEDS * len(measured[smallest])} runs, do not fit into "
        f"{minutes:g} minutes; give --minutes {math.ceil((least + spent) / (1 - RESERVE) / 60)}, more "
        "--workers, or fewer variants to --against"
    )


def study_seconds(arms: Sequence[Seconds], size: str, seeds: int, is_tuned: bool, workers: int) -> float:
    """Forecast a study: one stage after the other, the runs of each side by side."""
    steps, evaluations = SIZES[size].steps, SIZES[size].evaluations
    run = sum(arm.start + steps * arm.step + evaluations * arm.evaluation for arm in arms) / len(arms)
    rates = [len(SIZES[size].rates), *[2] * WIDEN] if is_tuned else []
    stages = [seeds, *(number * len(TUNING_SEEDS) for number in rates)]
    return sum(math.ceil(runs * len(arms) / workers) * run for runs in stages)


def may_fit_larger(arms: Sequence[Seconds], size: str, seconds: float, workers: int) -> bool:
    """Whether the size after one that was measured is worth measuring, where a study may take so long."""
    return LARGER_TAKES * study_seconds(arms, size, SEEDS, True, workers) <= seconds
