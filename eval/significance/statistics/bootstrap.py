"""The studentized bootstrap of weighted sums of arm means; runs are resampled within each arm.

At the numbers of seeds people can afford percentile and BCa intervals cover too little (docs/error-rates.md),
and the studentized bootstrap (Hall 1988) covers what it says. Of its resamples the size counts and not the
sign: with equal tails the interval covers 93% where runs lie far out.

Shapes: C arms of n runs, B resamples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
