"""Bootstrap intervals of weighted sums of arm means; runs are resampled within each arm.

At the numbers of seeds people can afford only the studentized bootstrap (Hall 1988) covers what it says; the
percentile and BCa intervals (Efron 1987) are for comparison (docs/error-rates.md). Of studentized resamples
the size counts and not the sign: with equal tails the interval covers 93% where runs lie far out.

Shapes: C arms of n runs, B resamples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy import special

from eval.significance.statistics.welch import NO_SPREAD

Bootstrap = Literal["studentized", "percentile", "bca"]
RESAMPLES = 10_000
MIN_RUNS = {"studentized": 5, "percentile": 2, "bca": 2}
"""Runs that every arm needs: below five, many resamples of an arm have hardly any spread to divide by."""


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

    Arguments are those of ``bootstrap_interval``; None where no arm has any spread.
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


def bootstrap_interval(
    method: Bootstrap,
    arms: Sequence[np.ndarray],
    resampled: Sequence[ResampledArm],
    weights: Sequence[float],
    confidence: float,
) -> tuple[float, float] | None:
    """Return both ends of an interval for a weighted sum of arm means.

    Args:
        method: ``studentized``, ``percentile`` or ``bca``.
        arms: C arrays of run scores.
        resampled: What ``resample`` made of each.
        weights: (C,) contrast weights.
        confidence: Level of the two-sided interval.

    Returns:
        None where an arm has fewer runs than ``MIN_RUNS`` or no arm has any spread.
    """
    if min(map(len, arms)) < MIN_RUNS[method]:
        return None
    found = studentized(arms, resampled, weights)
    if found is None:
        return None
    if method == "studentized":
        return found.interval(1 - confidence)
    estimates = np.asarray(sum(w * r.means for w, r in zip(weights, resampled, strict=True)))
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca":
        tails = _bca_tails(tails, found.estimate, estimates, arms, weights)
    low, high = np.quantile(estimates, tails)
    return float(low), float(high)


def _bca_tails(
    tails: np.ndarray,
    estimate: float,
    estimates: np.ndarray,
    arms: Sequence[np.ndarray],
    weights: Sequence[float],
) -> np.ndarray:
    """Shift the tails by the bias and the acceleration, the latter from the influence of every run."""
    below = ((estimates < estimate).mean() + (estimates <= estimate).mean()) / 2
    bias = special.ndtri(below)
    influence = [w * (c - c.mean()) / len(c) for w, c in zip(weights, arms, strict=True)]
    cubes, squares = (sum((x**power).sum() for x in influence) for power in (3, 2))
    shifted = bias + special.ndtri(tails)
    return special.ndtr(bias + shifted / (1 - cubes / (6 * squares**1.5) * shifted))
