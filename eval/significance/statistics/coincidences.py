"""How many pairs of runs have the same scores by chance.

Two scores of a normal spread sd, in steps of d, are the same with probability d / (2 sqrt(pi) sd). Over
scores that move apart, these multiply. But scores of one run move together. So only a few uncorrelated
directions are counted: few runs do not tell how all scores are related, and chance would seem too small.

Shapes: R runs, K scores of each, A arms, P pairs of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from eval.significance.statistics.welch import NO_SPREAD

IMPOSSIBLE = 0.001
MAX_DIRECTIONS = 3
DF_OF_A_DIRECTION = 4
"""Degrees of freedom within arms that each direction takes."""
PAIRS_OF_OWN_SPREAD = 5
"""Pairs from which an arm's own spread counts, where it is less than that of all arms."""
TOO_COARSE = 0.05
"""Where two runs are the same more often than this, the steps are too coarse to tell."""
MODEL_ERROR = 0.1
"""Relative error of the number expected, as spreads are not normal."""
MAX_DECIMALS = 8
LARGEST_TEST = 100_000
"""Largest number of items that is looked for behind percentages."""
FITS_BY_CHANCE = 0.05
"""Tests as small that fit by chance, fewer than this."""
COARSER = 0.65
"""Steps of rounding over steps of items, at most."""
# Of a normal spread: the density of differences at zero (0.2821 / sd) times their median size (0.9539 sd).
DENSITY_AT_MEDIAN = 0.2691
# The mean square of a normal density over its squared mean: pairs that share a run coincide together.
SHARED_RUN = 2 / np.sqrt(3)


@dataclass(frozen=True)
class Count:
    """Pairs with the same scores: how many there are, and how many chance makes."""

    found: int = 0
    expected: float = 0.0
    variance: float = 0.0

    def __add__(self, other: Count) -> Count:
        """Count over two sets of pairs."""
        return Count(self.found + other.found, self.expected + other.expected, self.variance + other.variance)

    @property
    def is_impossible(self) -> bool:
        """Whether chance makes as many in fewer than one study of a thousand (negative binomial tail)."""
        if not self.found or not self.expected:
            return False
        size = self.expected**2 / (self.variance - self.expected)
        return bool(special.betainc(self.found, size, 1 - self.expected / self.variance) < IMPOSSIBLE)


def count_pairs(
    same: np.ndarray, arms: np.ndarray, scores: np.ndarray, steps: np.ndarray
) -> tuple[Count, Count]:
    """Count pairs with the same scores within arms, and across them.

    Across arms chance makes at most as many as if their means were equal; that number is taken.

    Args:
        same: (R,) equal for runs with the same scores; below zero for a run that is a copy of none.
        arms: (R,) index of each run's arm.
        scores: (R, K).
        steps: (A, K) steps of the scores.
    """
    first, second = np.triu_indices(len(same), 1)
    is_same = (same[first] == same[second]) & (same[first] >= 0)
    is_within = arms[first] == arms[second]
    chance, directions = chance_of_same(scores, arms, steps)
    sizes, own = np.bincount(arms), np.eye(len(steps))
    either, df = np.maximum.outer(chance, chance), max(1, len(arms) - len(sizes))

    def count(found: np.ndarray, others: np.ndarray) -> Count:
        partners = (either * others).sum(axis=1)  # expected for each run of an arm
        expected = float(sizes @ partners) / 2
        together = float(sizes @ partners**2) * (SHARED_RUN**directions - 1)
        unsure = expected**2 * (MODEL_ERROR**2 + directions / df)
        return Count(int(found.sum()), expected, expected + together + unsure)

    return count(is_same & is_within, own * (sizes - 1)), count(is_same & ~is_within, (1 - own) * sizes)


def chance_of_same(scores: np.ndarray, arms: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the probability that two runs of an arm have the same scores, (A,), and the directions counted.

    The first direction is the score of most spread for its step, the next that of most spread when the first
    is regressed out, and so on.

    Args:
        scores: (R, K).
        arms: (R,) index of each run's arm.
        steps: (A, K).
    """
    first, second = np.triu_indices(len(scores), 1)
    differ = (scores[first] != scores[second]).any(axis=1)
    pairs, left = differ & (arms[first] == arms[second]), scores - _arm_means(scores, arms)
    if not pairs.any():  # one run in each arm, or copies of one
        pairs, left = differ, scores - scores.mean(axis=0)
    first, second = first[pairs], second[pairs]
    chance, directions = np.ones(len(steps)), 0
    while directions < max(1, min(MAX_DIRECTIONS, (len(arms) - len(steps)) // DF_OF_A_DIRECTION)):
        sd = left.std(axis=0)
        if sd.max() < NO_SPREAD:
            break
        widest = int(np.argmax(sd / steps.mean(axis=0)))
        along = left[:, widest]
        spreads = _median_distances(
            np.abs(along[first] - along[second]), arms[first], arms[second], len(steps)
        )
        chance = chance * np.minimum(1, DENSITY_AT_MEDIAN * steps[:, widest] / spreads)
        left = left - np.outer(along, along @ left / (along @ along))
        directions += 1
    return np.where(chance > TOO_COARSE, 1.0, chance), max(1, directions)


def _arm_means(scores: np.ndarray, arms: np.ndarray) -> np.ndarray:
    sums = np.zeros((arms.max() + 1, scores.shape[1]))
    np.add.at(sums, arms, scores)
    return (sums / np.bincount(arms)[:, None])[arms]


def _median_distances(distances: np.ndarray, first: np.ndarray, second: np.ndarray, num: int) -> np.ndarray:
    """Return the median distance between runs of each arm, (A,); that of all pairs where it has few or less.

    Args:
        distances: (P,) between two runs.
        first: (P,) the arm of one.
        second: (P,) the arm of the other.
        num: A.
    """
    of_all = float(np.median(distances))
    found = np.full(num, of_all)
    for arm in range(num):
        own = distances[(first == arm) & (second == arm)]
        if len(own) >= PAIRS_OF_OWN_SPREAD:
            found[arm] = min(of_all, float(np.median(own)))
    return np.maximum(found, NO_SPREAD)


def score_steps(scores: np.ndarray, arms: np.ndarray, are_percentages: Sequence[bool]) -> np.ndarray:
    """Return the steps in which scores are written, (A, K).

    It is that of the decimals of each arm, or of the fewest items whose shares all percentages can be.

    Args:
        scores: (R, K).
        arms: (R,) index of each run's arm.
        are_percentages: Of each of the K scores.
    """
    rounded = 10.0 ** -_decimals(scores)
    steps = np.full((arms.max() + 1, scores.shape[1]), 1.0)
    np.minimum.at(steps, arms, rounded)
    for place in np.flatnonzero(are_percentages):
        tolerances = steps[arms, place] / 2
        steps[:, place] = np.maximum(steps[:, place], _step_of_items(scores[:, place], tolerances))
    return steps


def _decimals(scores: np.ndarray) -> np.ndarray:
    """Count the decimals of each score, 0 to 8."""
    found = np.full(scores.shape, MAX_DECIMALS)
    for decimals in range(MAX_DECIMALS - 1, -1, -1):
        found[np.abs(scores - scores.round(decimals)) < 0.5 * 10.0**-MAX_DECIMALS] = decimals
    return found


def _step_of_items(scores: np.ndarray, tolerances: np.ndarray) -> float:
    """Return 100 / n for the smallest test of n items of which all scores can be percentages.

    0 where a test so small would fit by chance, as one does that is large for the decimals or for few scores.

    Args:
        scores: (R,) percentages.
        tolerances: (R,) how far off rounding may have put them.
    """
    most = min(LARGEST_TEST, COARSER * 50 / tolerances.max())
    items = np.arange(1, int(most) + 1)
    different, places = np.unique(scores, return_index=True)
    fit = np.exp(len(different) * np.log(items) + np.log(tolerances[places] / 50).sum())  # by chance
    items = items[np.cumsum(fit) < FITS_BY_CHANCE]
    for score, tolerance in zip(different, tolerances[places], strict=True):
        shares = score / 100 * items
        items = items[np.abs(shares - shares.round()) <= tolerance / 100 * items * (1 + 1e-6)]
    return 100 / float(items[0]) if len(items) else 0.0
