"""What a study of so many runs can find, and how many runs it takes.

All for the two-sided t-test with Welch-Satterthwaite's degrees of freedom, before any correction unless the
level is a corrected one.

Signal and noise follow Heineman et al. 2025 (https://arxiv.org/abs/2508.13144): signal is the largest
difference between two models' scores, noise the standard deviation of one model's. There both are divided by
the mean score, which cancels in their ratio; here they keep the metric's unit, so that a mean near zero or
below it does no harm. There noise is over the last checkpoints of a run, here over seeds: that is what
another run of the same variant would change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from report.statistics.tuning_curves import NO_CHOICE, Selection
from report.statistics.welch import CONFIDENCE, NO_SPREAD, equivalence_power, noncentral_t, one_sided_level

POWER = 0.80
FEWEST_RUNS, MAX_RUNS = 2, 1000
"""Runs per arm between which is searched; one has no spread."""


def detection_power(effect: float, standard_error: float, df: float, level: float) -> float:
    """Return how often a true difference is found at a two-sided level (noncentral t)."""
    critical = float(special.stdtrit(df, 1 - level / 2))
    noncentrality = effect / standard_error
    return 1 - noncentral_t(critical, df, noncentrality) + noncentral_t(-critical, df, noncentrality)


def minimum_detectable_effect(
    standard_error: float, df: float, confidence: float = CONFIDENCE
) -> float | None:
    """Find the true difference that the two-sided t-test would detect with a power of ``POWER``.

    Returns:
        It in the unit of the standard error; None where the degrees of freedom are too few for an answer.
    """
    level = 1 - confidence

    def shortfall(noncentrality: float) -> float:
        return detection_power(noncentrality, 1.0, df, level) - POWER

    upper = float(2 * special.stdtrit(df, 1 - level / 2) + 3)
    if not shortfall(upper) > 0:
        return None
    low, high = 0.0, upper
    for _ in range(60):  # by halves, as loading scipy.optimize takes longer than that
        middle = (low + high) / 2
        low, high = (middle, high) if shortfall(middle) < 0 else (low, middle)
    return high * standard_error


def runs_to_detect(
    effect: float,
    variances: Sequence[float],
    weights: Sequence[float],
    level: float,
    choice: Selection = NO_CHOICE,
) -> int | None:
    """Find how many runs in every arm make the test find a true difference with a power of ``POWER``.

    Args:
        effect: The true difference, in percentage points.
        variances: Of each arm over seeds, in squared percentage points.
        weights: Of each arm in the contrast.
        level: Two-sided level of the test.
        choice: What tuning adds to the variance of the contrast, which more runs do not lessen.

    Returns:
        The number; None where no arm varies or more than ``MAX_RUNS`` would be needed.
    """
    return _fewest(variances, weights, lambda se, df: detection_power(effect, se, df, level) >= POWER, choice)


def runs_to_show_equivalence(
    margin: float,
    variances: Sequence[float],
    weights: Sequence[float],
    level: float,
    power: float = POWER,
    choice: Selection = NO_CHOICE,
) -> int | None:
    """Find how many runs in every arm make two one-sided tests pass where there is no difference at all.

    Arguments and result are those of ``runs_to_detect``, and how often they are to pass.
    """
    level = one_sided_level(level, choice.variance)
    return _fewest(
        variances, weights, lambda se, df: equivalence_power(se, df, margin, level) >= power, choice
    )


def balanced(variances: Sequence[float], weights: Sequence[float], runs: int) -> tuple[float, float]:
    """Return standard error and degrees of freedom of a contrast with so many runs, at least 2, an arm."""
    terms = np.asarray(weights) ** 2 * np.asarray(variances)
    df = (runs - 1) * terms.sum() ** 2 / (terms**2).sum()
    return float(np.sqrt(terms.sum() / runs)), float(df)


def _fewest(
    variances: Sequence[float],
    weights: Sequence[float],
    suffices: Callable[[float, float], bool],
    choice: Selection,
) -> int | None:
    def is_enough(runs: int) -> bool:
        return suffices(*_with_choice(*balanced(variances, weights, runs), choice))

    if not max(variances) > NO_SPREAD**2 or not is_enough(MAX_RUNS):
        return None
    # More runs never suffice less, so that the numbers are sorted by whether they do.
    return FEWEST_RUNS + bisect_left(range(FEWEST_RUNS, MAX_RUNS), True, key=is_enough)


def _with_choice(standard_error: float, df: float, choice: Selection) -> tuple[float, float]:
    """Add what tuning adds, with Satterthwaite's degrees of freedom."""
    variance = standard_error**2 + choice.variance
    return float(np.sqrt(variance)), variance**2 / (standard_error**4 / df + choice.variance**2 / choice.df)


@dataclass(frozen=True)
class SignalNoise:
    """Spread between variants and between seeds, both in the metric's unit."""

    signal: float
    """The largest difference between the means of two variants."""
    noise: float
    """Standard deviation of one seed's score, the root of the mean variance within arms."""
    ratio: float
    """Signal over noise."""
    ratio_of_equals: float
    """What the ratio is on average where all variants are equal: means of few seeds differ, too."""

    @property
    def written(self) -> str:
        """The ratio, and in parentheses that of equals."""
        return f"{self.ratio:.1f} ({self.ratio_of_equals:.1f})"


def signal_noise(arms: Sequence[Sequence[np.ndarray]]) -> SignalNoise | None:
    """Compare the spread between variants with that between seeds.

    Args:
        arms: For each family and each of V variants (n,) scores of its runs; families weigh alike, and their
            runs are independent. Every arm holds a run.

    Returns:
        None for fewer than two variants, or where no arm of a family has two runs, or none any spread.
    """
    num_families, num_variants = len(arms), len(arms[0])
    repeated = [[arm for arm in family if len(arm) > 1] for family in arms]
    if num_variants < 2 or not all(repeated):
        return None
    variances = np.array([np.mean([arm.var(ddof=1) for arm in family]) for family in repeated])
    noise = float(np.sqrt(variances.sum())) / num_families
    if noise < NO_SPREAD:
        return None
    means = np.mean([[arm.mean() for arm in family] for family in arms], axis=0)
    one_over_runs = np.array([np.mean([1 / len(arm) for arm in family]) for family in arms])
    error = float(np.sqrt((variances * one_over_runs).sum())) / num_families
    signal = float(np.ptp(means))
    return SignalNoise(signal, noise, signal / noise, expected_range(num_variants) * error / noise)


@lru_cache
def expected_range(num_variants: int) -> float:
    """Return the mean range of so many draws from a standard normal (Tippett 1925)."""
    # Of what is smooth and vanishes at both ends the trapezoidal rule gives all digits.
    x, step = np.linspace(-12, 12, 2401, retstep=True)
    outside = special.ndtr(x) ** num_variants + special.ndtr(-x) ** num_variants
    return float((1 - outside).sum() * step)
