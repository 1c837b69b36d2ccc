"""Whether a difference shrinks, grows or holds with size: a line through the differences at several sizes.

The line is that of least squares in the logarithm of size, every size with the same weight. Its change and
its height are then sums of arm means with weights known beforehand, of which Welch's test (1947) holds its
level. Weights by the precision that few seeds show would not: benchmarks/scaling.py has both.

Shapes: F families, S sizes, two arms at each (the variant, the baseline); any leading dimensions are studies
of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from eval.significance.statistics.corrections import Holm
from eval.significance.statistics.equivalence import equivalence_p
from eval.significance.statistics.welch import CONFIDENCE, Welch, welch

SHRINKS, GROWS, CHANGES_SIGN, HOLDS, CANNOT_TELL = "shrinks", "grows", "changes sign", "holds", "cannot tell"


class SizeTrend(NamedTuple):
    """A line through the differences of a variant to the baseline, averaged over families.

    ``|last| < |first|`` exactly where ``change`` and ``middle`` have opposite signs, so that "shrinks" is
    shown where both are told from zero, and with opposite signs; "grows" with the same sign (an
    intersection-union test, Berger 1982, which needs no correction for being two tests).
    """

    first: Welch
    """The line at the smallest size."""
    last: Welch
    """The line at the largest size."""
    change: Welch
    """Last minus first."""
    middle: Welch
    """Half of first plus last."""
    bend: Welch | None
    """How far the differences are from a line (their quadratic part); None with two sizes."""

    def of(self, place: tuple[int, ...]) -> SizeTrend:
        """Return the trend of one study."""
        return SizeTrend(*(part and Welch(*(x[place] for x in part)) for part in self))  # type: ignore

    @property
    def p_direction(self) -> np.ndarray:
        """Of "shrinks" or "grows", whichever the estimates say."""
        return _largest(self.change.p, self.middle.p)

    @property
    def p_sign(self) -> np.ndarray:
        """Of "changes sign": the difference is not zero at either end, with opposite signs; 1 elsewhere."""
        flips = self.first.estimate * self.last.estimate < 0
        return np.where(flips, _largest(self.change.p, self.first.p, self.last.p), 1.0)

    def p_holds(self, margin: float) -> np.ndarray:
        """Of "holds": the change is smaller than the margin, by two one-sided tests."""
        change = self.change
        with np.errstate(divide="ignore", invalid="ignore"):
            p = equivalence_p(change.estimate, change.standard_error, change.df, margin, change.regret)
        return np.nan_to_num(p, nan=1.0)


def size_trend(
    log_sizes: ArrayLike,
    means: ArrayLike,
    variances: ArrayLike,
    counts: ArrayLike,
    confidence: float = CONFIDENCE,
    added: ArrayLike = 0.0,
    added_df: ArrayLike = math.inf,
) -> SizeTrend:
    """Infer how a difference goes with the logarithm of size.

    Args:
        log_sizes: (F, S) of each family, S at least 2, not all equal; the order does not matter.
        means: (..., F, S, 2) arm means, the variant's first.
        variances: (..., F, S, 2) unbiased arm variances.
        counts: (..., F, S, 2) runs, at least 2.
        confidence: Level of the two-sided intervals.
        added: (..., F, S, 2) further variance of arm means, such as the choice of a learning rate adds.
        added_df: (..., F, S, 2) its degrees of freedom.

    Returns:
        Fields of shape (...). Arms without any spread give nan for p and intervals.
    """
    log_sizes = np.asarray(log_sizes, dtype=float)
    shape = np.shape(counts)
    arms = [np.asarray(x, dtype=float) for x in (means, variances, counts)]
    arms += [np.broadcast_to(np.asarray(x, dtype=float), shape) for x in (added, added_df)]
    mean, variance, count, more, more_df = (x.reshape(*x.shape[:-3], -1) for x in arms)

    def infer(of_sizes: np.ndarray) -> Welch:
        weights = np.stack([of_sizes, -of_sizes], axis=-1) / len(log_sizes)
        return welch(mean, variance, count, weights.ravel(), confidence, more, more_df)

    centred = log_sizes - log_sizes.mean(axis=1, keepdims=True)
    slope = centred / (centred**2).sum(axis=1, keepdims=True)
    ends = [centred.min(axis=1, keepdims=True), centred.max(axis=1, keepdims=True)]
    first, last = (1 / log_sizes.shape[1] + end * slope for end in ends)
    bend = infer(_bend(centred)) if log_sizes.shape[1] > 2 else None
    return SizeTrend(infer(first), infer(last), infer(last - first), infer((first + last) / 2), bend)


def _bend(centred: np.ndarray) -> np.ndarray:
    """(F, S) weights of the quadratic part that a line leaves, of length one in each family."""
    found = []
    for x in centred:
        line = np.stack([np.ones_like(x), x], axis=1)
        left = x**2 - line @ np.linalg.lstsq(line, x**2, rcond=None)[0]
        length = np.linalg.norm(left)
        found.append(left / length if length > 0 else left)
    return np.array(found)


def trend_verdicts(
    trends: Sequence[SizeTrend], margin: float | None, level: float = 1 - CONFIDENCE
) -> list[str]:
    """Return what is shown of each variant: the first that holds of sign, direction, holding.

    Each kind of verdict is corrected over the variants (Holm), so that at most ``level`` of studies have a
    false one of it. All who shrink or grow do so by their fitted ends, and may do so within the margin.

    Args:
        trends: One a variant, fields of shape ().
        margin: The largest change that counts as none; with None nothing is said to hold.
        level: Of the tests of each kind together.
    """
    kinds = (
        [float(x.p_sign) for x in trends],
        [float(x.p_direction) for x in trends],
        [1.0 if margin is None else float(x.p_holds(margin)) for x in trends],
    )
    corrected = zip(*(Holm().adjust(p_values) for p_values in kinds), strict=True)
    return [
        next((words for words, p in zip(_words(trend), p_values, strict=True) if p < level), CANNOT_TELL)
        for trend, p_values in zip(trends, corrected, strict=True)
    ]


def _words(trend: SizeTrend) -> tuple[str, str, str]:
    is_towards_zero = trend.change.estimate * trend.middle.estimate < 0
    return CHANGES_SIGN, SHRINKS if is_towards_zero else GROWS, HOLDS


def _largest(*p_values: np.ndarray) -> np.ndarray:
    """The largest p; 1 where one is not known."""
    return np.nan_to_num(np.max(p_values, axis=0), nan=1.0)
