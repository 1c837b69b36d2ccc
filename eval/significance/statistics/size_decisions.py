"""How often a small study would have chosen as the largest did: decision accuracy across sizes.

Follows DataDecide (Magnusson et al. 2025, https://arxiv.org/abs/2504.11393): the share of pairs of recipes
whose order at a small size is that of the means at the target, here the largest size. ``signal_noise`` has
the like within one size, from one seed to the others.

Shapes: F families of V variants, each an array (n,) of its runs; D resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from eval.significance.statistics.welch import CONFIDENCE

Arms = Sequence[Sequence[np.ndarray]]
"""(F, V) arrays (n,) of the scores of runs; n may differ, and is at least 1."""
DRAWS = 2_000


class Share(NamedTuple):
    """A share of decisions, from 0 to 1, with the percentile interval of its bootstrap; 0.5 is guessing."""

    estimate: float
    low: float
    high: float


class SizeDecisions(NamedTuple):
    """What a size decides as the largest does."""

    of_means: Share
    """Ranking pairs by their means over seeds."""
    of_seeds: Share
    """Ranking pairs by one seed of each, over all choices of these."""
    num_pairs: int
    """Of variants, in all families."""


def size_decisions(
    small: Arms, target: Arms, rng: np.random.Generator, draws: int = DRAWS, confidence: float = CONFIDENCE
) -> SizeDecisions | None:
    """Compare the order of every pair of variants at a small size with that at the target.

    A tie counts half. Families are resampled apart from each other, and their pairs weigh alike. Seeds are
    resampled at both sizes, as the target's order is not known for certain either.

    Args:
        small: Scores at the small size.
        target: Scores at the target, of the same families and variants.
        rng: Of the bootstrap.
        draws: Its resamples.
        confidence: Of its intervals.

    Returns:
        None for fewer than two variants.
    """
    if len(small[0]) < 2:
        return None
    found = _agreement(
        [[x[None] for x in runs] for runs in small], [[x[None] for x in runs] for runs in target]
    )
    drawn = _agreement(_resampled(small, rng, draws), _resampled(target, rng, draws))
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    shares = [
        Share(float(estimate[0]), *map(float, np.quantile(values, tails)))
        for estimate, values in zip(found, drawn, strict=True)
    ]
    num_variants = len(small[0])
    return SizeDecisions(*shares, num_pairs=len(small) * num_variants * (num_variants - 1) // 2)


def _resampled(arms: Arms, rng: np.random.Generator, draws: int) -> list[list[np.ndarray]]:
    return [[runs[rng.integers(len(runs), size=(draws, len(runs)))] for runs in family] for family in arms]


def _agreement(small: Arms, target: Arms) -> tuple[np.ndarray, np.ndarray]:
    """(D,) shares of pairs that means and single seeds order as the target's means; runs are (D, n)."""
    of_means, of_seeds = [], []
    for family, of_target in zip(small, target, strict=True):
        for i in range(len(family)):
            for j in range(i):
                right = np.sign(of_target[i].mean(-1) - of_target[j].mean(-1))
                of_means.append(right * np.sign(family[i].mean(-1) - family[j].mean(-1)))
                each = np.sign(family[i][:, :, None] - family[j][:, None, :])
                of_seeds.append(right * each.mean((-2, -1)))
    return (1 + np.mean(of_means, axis=0)) / 2, (1 + np.mean(of_seeds, axis=0)) / 2
