"""How well an outcome tells variants apart: signal over noise.

Signal and noise follow Heineman et al. 2025 (https://arxiv.org/abs/2508.13144): signal is the largest
difference between two models' scores, noise the standard deviation of one model's. There both are divided by
the mean score, which cancels in their ratio; here they keep the outcome's unit, so that a mean near zero or
below it does no harm. There noise is over the last checkpoints of a run, here over seeds: that is what
another run of the same variant would change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from report.statistics.welch import NO_SPREAD


@dataclass(frozen=True)
class SignalNoise:
    """Spread between variants and between seeds, both in the outcome's unit."""

    signal: float
    """The largest difference between the means of two variants."""
    noise: float
    """Standard deviation of one seed's score, the root of the mean variance within arms."""
    ratio: float
    """Signal over noise."""
    ratio_of_equals: float
    """What the ratio is on average where all variants are equal: means of few seeds differ, too."""


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
