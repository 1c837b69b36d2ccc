"""What a few runs under each of several recipes say of their spread over seeds.

The variance of few runs is itself so uncertain that the smallest of several is mostly luck: of twelve recipes
alike, with four degrees of freedom each, the smallest standard deviation is on average 0.4 of the true one.
So the logarithms of the variances are drawn towards their mean, the more so the less they differ beyond what
chance does: empirical Bayes with normal distributions (Efron and Morris 1975). The logarithm of a sample
variance varies by the trigamma function of half its degrees of freedom (Bartlett and Kendall 1946).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from eval.significance.statistics.power import POWER, runs_to_detect
from eval.significance.statistics.welch import CONFIDENCE, NO_SPREAD


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The standard deviation over seeds, pooled over arms, with its interval; in the unit of the scores."""

    sd: float
    df: int
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The spread that more runs under a recipe are expected to have, in the unit of the scores."""

    sd: float
    """Square root of the expected variance."""
    low: float
    high: float
    log_variance: float
    """Expected logarithm of the variance."""
    uncertainty: float
    """Variance of that logarithm."""
    df: int
    """Degrees of freedom of the recipe's own spread."""

    @property
    def worth_df(self) -> float:
        """Degrees of freedom at which a sample variance is as certain: of its own, and what others tell."""
        half = optimize.brentq(lambda half: special.polygamma(1, half) - self.uncertainty, 1e-3, 1e6)
        return 2 * float(np.asarray(half))


def difference_interval(
    estimate: float, counts: Sequence[int], promise: Promise, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Return the interval of a difference of two arms, with the spread that other recipes help to tell.

    The moderated t of Smyth (2004), with the prior of ``promised_spreads``; of one recipe alone Student's t.

    Args:
        estimate: The difference of means.
        counts: Runs of each arm.
        promise: The spread of both.
        confidence: Level of the interval.
    """
    df = promise.worth_df
    sd = float(np.exp((promise.log_variance + special.digamma(df / 2) - np.log(df / 2)) / 2))
    error = sd * float(np.sqrt(sum(1 / count for count in counts)))
    reach = float(special.stdtrit(df, (1 + confidence) / 2)) * error
    return estimate - reach, estimate + reach


def pooled_spread(arms: Sequence[Sequence[float]], confidence: float = CONFIDENCE) -> Spread | None:
    """Pool the variances of arms by their degrees of freedom; the interval is that of chi-square.

    Args:
        arms: Scores of the runs of each arm.
        confidence: Level of the interval.

    Returns:
        None where no arm has two runs, or runs of an arm do not differ at all.
    """
    usable = [np.asarray(arm, dtype=float) for arm in arms if len(arm) > 1]
    df = sum(len(arm) - 1 for arm in usable)
    squares = float(sum(((arm - arm.mean()) ** 2).sum() for arm in usable))
    if not df or not squares / df > NO_SPREAD**2:
        return None
    return spread_of(float(np.sqrt(squares / df)), df, confidence)


def spread_of(sd: float, df: int, confidence: float = CONFIDENCE) -> Spread:
    """Add to a standard deviation the interval that its degrees of freedom allow (chi-square)."""
    tail = (1 - confidence) / 2
    low, high = (sd * float(np.sqrt(df / special.chdtri(df, p))) for p in (tail, 1 - tail))
    return Spread(sd=sd, df=df, low=low, high=high)


def promised_spreads(found: Sequence[Spread], confidence: float = CONFIDENCE) -> list[Promise]:
    """Draw the variances of recipes towards their geometric mean as far as chance explains their difference.

    Args:
        found: The spread under each recipe; one alone is only corrected for the skew of its logarithm.
        confidence: Level of the intervals.
    """
    df = np.array([one.df for one in found], dtype=float)
    noise = special.polygamma(1, df / 2)
    # The expected logarithm of a sample variance lies below that of the variance by this.
    logs = 2 * np.log([one.sd for one in found]) - special.digamma(df / 2) + np.log(df / 2)
    centre, own, between = np.average(logs, weights=1 / noise), np.ones(len(found)), 0.0
    if len(found) > 1:
        between = max(float(logs.var(ddof=1) - noise.mean()), 0.0)
        own = between / (between + noise)  # the share of its own deviation that counts
    means = centre + own * (logs - centre)
    variances = own * noise + (1 - own) ** 2 * (between + noise) / len(found)
    if len(found) > 2:  # how far to draw is uncertain too (Morris 1983, equation 4.1)
        variances = variances + 2 / (len(found) - 1) * ((1 - own) * (logs - centre)) ** 2
    return [
        _promise(float(mean), float(variance), one.df, confidence)
        for mean, variance, one in zip(means, variances, found, strict=True)
    ]


def predicted_spread(promise: Promise, df: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return between which standard deviations a further study's own is expected, with so many df."""
    mean = promise.log_variance + float(special.digamma(df / 2) - np.log(df / 2))
    variance = promise.uncertainty + float(special.polygamma(1, df / 2))
    return _ends(mean, variance, promise.df, confidence)


def seeds_to_detect(effect: float, sd: float, confidence: float = CONFIDENCE) -> int | None:
    """Return how many seeds an arm a Welch test needs to find a difference of two arms in 80% of studies.

    Args:
        effect: The difference, in the unit of ``sd``.
        sd: Over seeds, in both arms.
        confidence: 1 minus the two-sided level of the test.

    Returns:
        None where more than 1,000 would be needed.
    """
    return runs_to_detect(effect, [sd**2, sd**2], [1.0, -1.0], 1 - confidence, POWER)


def _promise(mean: float, variance: float, df: int, confidence: float) -> Promise:
    low, high = _ends(mean, variance, df, confidence)
    sd = float(np.exp((mean + variance / 2) / 2))
    return Promise(sd=sd, low=low, high=high, log_variance=mean, uncertainty=variance, df=df)


def _ends(mean: float, variance: float, df: int, confidence: float) -> tuple[float, float]:
    """Return the ends of an interval of the standard deviation, from the logarithm of its square."""
    reach = float(special.stdtrit(df, (1 + confidence) / 2) * np.sqrt(variance))
    return float(np.exp((mean - reach) / 2)), float(np.exp((mean + reach) / 2))
