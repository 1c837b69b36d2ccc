"""The studentized bootstrap of weighted sums of arm means; runs are resampled within each arm.

At the numbers of seeds people can afford percentile and BCa intervals cover too little (docs/error-rates.md),
and the studentized bootstrap (Hall 1988) covers what it says. Of its resamples the size counts and not the
sign: with equal tails the interval covers 93% where runs lie far out.

Shapes: C arms of n runs, B resamples.

The source study's own interval, to compare with its published numbers and for nothing else.

It pools the families, and draws both arms with one generator state, so that the draws are not independent. In
simulation its nominal 95% interval covers 83 to 86% at five or six seeds (docs/error-rates.md).

A correction for several comparisons that uses what they share: one baseline, the same runs and items.

Step-down min-p (Westfall and Young 1993, algorithm 2.8; Romano and Wolf 2005): the smallest p is judged by
how small the smallest of all would be if nothing differed, the next one by the smallest of those that are
left, and so on. Joint draws of the p-values without any difference say how small that is
(``eval.significance.statistics.joint_null``). Comparisons that say almost the same then cost almost nothing,
while Holm's correction reckons with the worst case.

Shapes: B draws, m comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from eval.significance.statistics.welch import NO_SPREAD

RESAMPLES = 10_000
MIN_RUNS = 5
"""Runs that every arm needs: below, many resamples of an arm have hardly any spread to divide by."""


class ResampledArm(NamedTuple):
    """Means and unbiased variances of an arm's resamples, each of shape (B,)."""

    means: np.ndarray
    variances: np.ndarray


def resample(arm: np.ndarray, resamples: int, rng: np.random.Generator) -> ResampledArm:
    """Draw runs of an arm with replacement; done once for all comparisons that the arm takes part in."""
    drawn = arm[rng.integers(len(arm), size=(resamples, len(arm)))]
    return ResampledArm(drawn.mean(1), drawn.var(1, ddof=1))


class Studentized(NamedTuple):
    """A difference, judged by how far resamples without a difference lie out."""

    estimate: float
    standard_error: float
    sizes: np.ndarray
    """Sizes of t of the resamples, ascending; those without any spread have none."""

    @property
    def p(self) -> float:
        """Two-sided p of no difference."""
        return self._p_of(abs(self.estimate) / self.standard_error)

    def interval(self, level: float) -> tuple[float, float]:
        """Return both ends of the interval that excludes zero exactly where p is below a two-sided level.

        They are infinite where so few resamples never give such a p.
        """
        most = most_beyond(level, len(self.sizes))
        t = math.inf if most < 0 else float(self.sizes[-1 - most]) if most < len(self.sizes) else 0.0
        return self.estimate - t * self.standard_error, self.estimate + t * self.standard_error

    def equivalence_p(self, margin: float) -> float:
        """Return the larger p of the tests that the difference is above -margin and below +margin."""
        t = (margin - abs(self.estimate)) / self.standard_error
        return self._p_of(t) / 2 if t >= 0 else 1 - self._p_of(-t) / 2

    def smallest_margin(self, level: float) -> float:
        """Return where the 1 - 2 level interval ends: the smallest margin at which both tests pass."""
        return max(map(abs, self.interval(2 * level)))

    def _p_of(self, t: float) -> float:
        num_beyond = len(self.sizes) - np.searchsorted(self.sizes, t)
        return float((1 + num_beyond) / (1 + len(self.sizes)))


def most_beyond(level: float, draws: int) -> int:
    """Return how many of so many draws may lie as far out while (1 + them) / (1 + draws) is below a level.

    It is -1 where that is not even of none.
    """
    most = math.ceil(level * (1 + draws) - 1)
    while most >= 0 and not (1 + most) / (1 + draws) < level:
        most -= 1
    return most


def studentized(
    arms: Sequence[np.ndarray], resampled: Sequence[ResampledArm], weights: Sequence[float]
) -> Studentized | None:
    """Judge a weighted sum of arm means by Welch's t of its resamples.

    Args:
        arms: C arrays of run scores.
        resampled: What ``resample`` made of each.
        weights: (C,) contrast weights.

    Returns:
        None where no arm has any spread.
    """
    estimate = float(sum(w * arm.mean() for w, arm in zip(weights, arms, strict=True)))
    error = math.sqrt(sum(w**2 * c.var(ddof=1) / len(c) for w, c in zip(weights, arms, strict=True)))
    if error < NO_SPREAD:
        return None
    estimates = np.asarray(sum(w * r.means for w, r in zip(weights, resampled, strict=True)))
    squares = [w**2 * r.variances / len(c) for w, r, c in zip(weights, resampled, arms, strict=True)]
    errors = np.sqrt(np.asarray(sum(squares)))
    usable = errors > NO_SPREAD  # a resample that drew one score only has nothing to divide by
    return Studentized(estimate, error, np.sort(np.abs(estimates[usable] - estimate) / errors[usable]))


RESAMPLES_SOURCE_STUDY = 10_000


class SourceStudyInterval(NamedTuple):
    """In percentage points."""

    estimate: float
    """The mean of the resampled differences, which is what the study printed."""
    low: float
    high: float


def source_study_interval(first: np.ndarray, second: np.ndarray) -> SourceStudyInterval:
    """Return the study's percentile bootstrap of the difference of means.

    Args:
        first: (N,) scores of the first arm, all families in the order of the table: the draws depend on it.
        second: (M,) scores of the second; N of them are drawn each time, as the study does.
    """
    one, other = _drawn(len(first), len(first)), _drawn(len(second), len(first))
    differences = first[one].mean(1) - second[other].mean(1)
    low, high = np.percentile(differences, [2.5, 97.5])
    return SourceStudyInterval(float(differences.mean()), float(low), float(high))


@lru_cache(maxsize=32)
def _drawn(bound: int, size: int) -> np.ndarray:
    """What the generators of state 0, 1, 2, ... draw first, one row each."""
    generator = np.random.RandomState()
    drawn = np.empty((RESAMPLES_SOURCE_STUDY, size), dtype=np.intp)
    for state in range(RESAMPLES_SOURCE_STUDY):
        generator.seed(state)
        drawn[state] = generator.randint(0, bound, size=size)
    return drawn


class MaxT:
    """Keeps the chance of any false claim below the level, as ``Holm`` does.

    Args:
        null_p: (B, m) two-sided p-values of all comparisons in draws without any difference; nan where a draw
            gives none.
    """

    def __init__(self, null_p: np.ndarray) -> None:
        self.null_p = np.where(np.isnan(null_p), 1.0, null_p)

    def adjust(self, p_values: Sequence[float | None]) -> list[float | None]:
        """Correct m p-values; None stays None and is not counted. No p becomes smaller than it was.

        The observed study counts as one draw more, so that no corrected p is below 1 / (B + 1).
        """
        corrected: list[float | None] = [None] * len(p_values)
        running = 0.0
        for index, p, smallest in self._steps(p_values):
            share = float((1 + (smallest <= p).sum()) / (1 + len(smallest)))
            running = max(running, share, p)
            corrected[index] = running
        return corrected

    def levels(self, p_values: Sequence[float | None], level: float) -> list[float | None]:
        """Return the two-sided level of each interval: that of the smallest p of all, as ``Holm`` does.

        What is not shown has a p that is not below it. Where the interval of what is shown holds zero, it is
        to be cut there.
        """
        steps = self._steps(p_values)
        together = _critical(steps[0][2], level) if steps else None
        return [None if p is None else together for p in p_values]

    def _steps(self, p_values: Sequence[float | None]) -> list[tuple[int, float, np.ndarray]]:
        """From the smallest p: its place, itself, and (B,) the smallest of those from it on in each draw."""
        known = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
        order = [index for _, index in known]
        smallest = np.minimum.accumulate(self.null_p[:, order[::-1]], axis=1)[:, ::-1]
        return [(index, p, smallest[:, rank]) for rank, (p, index) in enumerate(known)]


def _critical(smallest: np.ndarray, level: float) -> float:
    """Return below which p a step rejects: 0 where so few draws can never reject."""
    most = most_beyond(level, len(smallest))
    return 0.0 if most < 0 else min(level, float(np.partition(smallest, most)[most]))
